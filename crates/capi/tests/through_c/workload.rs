//! The test kit's random operations, as far as C can express them, against the oracle.
//!
//! There are no deletions of ranges, the disk, the clock and the threads are real, and what expires
//! has expired already or will not do so soon.

use std::path::{Path, PathBuf};

use tidesdb_base::key_order::KeyOrder;
use tidesdb_sim::rng::SplitMix64;
use tidesdb_testkit::Verdict;
use tidesdb_testkit::operations::{self, Operation, PlannedWrite, key_bytes};
use tidesdb_testkit::oracle::{Content, Contents, FamilyId, History, Transaction, Write};
use tidesdb_testkit::settings::{Mix, SLOTS, Settings};

use crate::handles::{self, Database, Family, Move, default_family};
use crate::types::FamilyConfig;

const READ_COMMITTED: i32 = 1;
const SNAPSHOT: i32 = 3;

/// When what has expired did so, and when the rest will, in Unix seconds.
const LONG_AGO: u64 = 1_000;
const NOW: u64 = 1_000_000;
const FAR: u64 = 9_000_000_000;

/// A transaction that still sees what it saw when it began.
struct Held {
    transaction: handles::Transaction,
    /// The last commit that it sees.
    number: u64,
    families: Vec<FamilyId>,
}

/// One run on one directory.
pub struct Run {
    directory: PathBuf,
    random: SplitMix64,
    settings: Settings,
    held: Vec<Held>,
    families: [Option<(FamilyId, Family)>; SLOTS],
    db: Option<Database>,
    history: History,
    number: u64,
    next_family: FamilyId,
    /// Every so many writes one is left out: a planted fault.
    leaves_out: Option<u64>,
}

fn name(slot: usize) -> String {
    format!("family {slot}")
}

/// Small options, so that a few hundred operations make tables and merges.
fn config(random: &mut SplitMix64) -> FamilyConfig {
    FamilyConfig {
        write_buffer_size: (4 << 10) << random.below(5),
        klog_value_threshold: 64 << random.below(4),
        compression_algorithm: random.below(5) as i32,
        enable_bloom_filter: random.below(2) as i32,
        use_btree: random.below(2) as i32,
        l1_file_count_trigger: 2 + random.below(3) as i32,
        level_size_ratio: 2 + random.index(9),
        min_disk_space: 0,
        ..default_family()
    }
}

impl Run {
    pub fn start(directory: &Path, seed: u64, leaves_out: Option<u64>) -> Verdict<Self> {
        let mut random = SplitMix64::new(seed);
        let settings = Settings {
            keys: [12, 60, 250][random.index(3)],
            huge_values: random.chance(1, 10),
            mix: if random.chance(1, 4) { Mix::Overwrites } else { Mix::Everything },
            ..Settings::random(&mut random, Default::default())
        };
        let shared_memtable = random.chance(1, 2);
        let mut run = Self {
            directory: directory.to_path_buf(),
            random,
            settings,
            held: Vec::new(),
            families: [None; SLOTS],
            db: Some(Database::open(directory, shared_memtable)?),
            history: History::default(),
            number: 0,
            next_family: 0,
            leaves_out,
        };
        (0..SLOTS).try_for_each(|slot| run.create_or_drop(slot))?;
        Ok(run)
    }

    fn db(&self) -> Verdict<&Database> {
        self.db.as_ref().ok_or_else(|| "no database is open".to_owned())
    }

    fn live(&self) -> Vec<FamilyId> {
        self.families.iter().flatten().map(|(id, _)| *id).collect()
    }

    /// Applies `count` random operations.
    pub fn run(&mut self, count: usize) -> Verdict {
        for step in 0..count {
            let operation = operations::next(&mut self.random, &self.settings);
            self.apply(&operation).map_err(|e| format!("step {step}, {operation:?}: {e}"))?;
        }
        self.check()?;
        self.reopen()
    }

    fn apply(&mut self, operation: &Operation) -> Verdict {
        let all = |run: &Self, what: fn(Family) -> Verdict| {
            run.families.iter().flatten().try_for_each(|(_, family)| what(*family))
        };
        let one = |run: &Self, slot: usize, what: fn(Family) -> Verdict| {
            run.families[slot].map_or(Ok(()), |(_, family)| what(family))
        };
        match operation {
            Operation::Single(write) => self.commit(&[*write]),
            Operation::Batch { writes, .. } => self.commit(writes),
            Operation::TakeSnapshot => self.hold(),
            Operation::CheckSnapshot => self.check_held(),
            Operation::DropSnapshot => {
                self.held.drain(..self.held.len().min(1));
                Ok(())
            }
            Operation::Flush => all(self, Family::flush),
            Operation::FlushFamily(slot) => one(self, *slot, Family::flush),
            Operation::Compact => all(self, Family::compact).and_then(|()| self.check_held()),
            Operation::CompactFamily(slot) => one(self, *slot, Family::compact),
            Operation::SyncLog => all(self, Family::sync),
            Operation::CreateOrDrop(slot) => self.create_or_drop(*slot),
            Operation::Rename(from, to) => self.rename(*from, *to),
            Operation::CopyFamily(from, to) => self.copy_family(*from, *to),
            Operation::ChangeOptions(slot) => {
                let config = config(&mut self.random);
                self.families[*slot].map_or(Ok(()), |(_, family)| family.set_config(&config))
            }
            Operation::CopyDatabase { backup } => self.copy_database(*backup),
            Operation::OpenBeside => match Database::open(&self.directory, false) {
                Err(refusal) if refusal.ends_with("answered -12") => Ok(()),
                Err(other) => Err(other),
                Ok(_) => Err("a second opening is not refused".to_owned()),
            },
            Operation::Reopen { .. } => self.reopen(),
            Operation::Check => self.check(),
            // Background work and time go on by themselves.
            Operation::Step(_) | Operation::FireTimer | Operation::Advance(_) => Ok(()),
        }
    }

    fn commit(&mut self, planned: &[PlannedWrite]) -> Verdict {
        let number = self.number + 1;
        let mut transaction = self.db()?.begin(READ_COMMITTED)?;
        let mut writes: Vec<Write> = Vec::new();
        for (place, planned) in planned.iter().enumerate() {
            let Some((id, family)) = self.families[planned.slot] else { continue };
            let planned = PlannedWrite { until: None, ..*planned };
            let since = if planned.key.is_multiple_of(2) { LONG_AGO } else { FAR };
            let (mut write, bytes) =
                planned.materialize((number, place as u32), (id, &KeyOrder::Bytewise), since);
            write.single &= self.history.allows_single_deletion(&writes, id, &write.place);
            let left_out = self.leaves_out.is_some_and(|every| self.random.below(every) == 0);
            if !left_out {
                add(&mut transaction, family, &write, &bytes)?;
                self.check_own(&transaction, family, &write, &bytes)?;
            }
            writes.push(write);
            if self.random.chance(1, 10) {
                self.write_and_take_back(&mut transaction, family)?;
            }
        }
        if self.random.chance(1, 12) {
            return transaction.rollback();
        }
        handles::worked("commit", transaction.commit())?;
        if !writes.is_empty() {
            self.number = number;
            self.history.push(Transaction { number, writes });
        }
        Ok(())
    }

    /// What a transaction has written it reads, unless it has expired.
    fn check_own(
        &self,
        transaction: &handles::Transaction,
        family: Family,
        write: &Write,
        bytes: &[u8],
    ) -> Verdict {
        let there =
            write.value.is_some_and(|value| value.expires_at == 0 || value.expires_at > NOW);
        let found = transaction.get(family, &write.key, true)?;
        if found.as_deref() != there.then_some(bytes) {
            return Err(format!("a transaction does not read its own write of {:?}", write.key));
        }
        Ok(())
    }

    fn write_and_take_back(
        &mut self,
        transaction: &mut handles::Transaction,
        family: Family,
    ) -> Verdict {
        transaction.savepoint("here")?;
        for _ in 0..self.random.below(4) {
            let key = key_bytes(1 + self.random.below(self.settings.keys));
            match self.random.chance(1, 2) {
                true => transaction.put(family, &key, b"taken back", 0)?,
                false => transaction.delete(family, &key, false)?,
            }
        }
        transaction.rollback_to("here")
    }

    fn hold(&mut self) -> Verdict {
        if self.held.len() < 3 {
            let transaction = self.db()?.begin(SNAPSHOT)?;
            self.held.push(Held { transaction, number: self.number, families: self.live() });
        }
        Ok(())
    }

    fn check_held(&self) -> Verdict {
        for held in &self.held {
            let living = self.families.iter().flatten();
            for (id, family) in living.filter(|(id, _)| held.families.contains(id)) {
                let found = Contents::from([(*id, read(&held.transaction, *family)?)]);
                let expected = self.history.contents(&[*id], held.number, NOW);
                if found != expected {
                    let differences = self.history.differences(&expected, &found);
                    return Err(format!("a snapshot at {} changed: {differences}", held.number));
                }
            }
        }
        Ok(())
    }

    fn create_or_drop(&mut self, slot: usize) -> Verdict {
        let db = self.db.as_ref().ok_or("no database is open")?;
        if self.families[slot].take().is_some() {
            return db.drop_family(&name(slot));
        }
        self.next_family += 1;
        let family = db.create(&name(slot), &config(&mut self.random))?;
        self.families[slot] = Some((self.next_family, family));
        Ok(())
    }

    fn rename(&mut self, from: usize, to: usize) -> Verdict {
        if self.families[from].is_none() || self.families[to].is_some() {
            return Ok(());
        }
        self.db()?.rename(&name(from), &name(to))?;
        // The handle stays valid.
        self.families[to] = self.families[from].take();
        Ok(())
    }

    fn copy_family(&mut self, from: usize, to: usize) -> Verdict {
        let Some((source, _)) = self.families[from].filter(|_| from != to) else { return Ok(()) };
        if self.families[to].is_some() {
            self.create_or_drop(to)?;
        }
        self.db()?.copy_family(&name(from), &name(to))?;
        let copy = self.db()?.family(&name(to))?.ok_or("a copy is not there")?;
        self.next_family += 1;
        self.history.copy_family(source, self.next_family);
        self.families[to] = Some((self.next_family, copy));
        Ok(())
    }

    /// Copies the database, and compares what the copy holds.
    fn copy_database(&mut self, every_byte: bool) -> Verdict {
        let to = self.directory.with_extension("copy");
        self.db()?.copy(&to, every_byte)?;
        let copy = Database::open(&to, self.random.chance(1, 2))?;
        let transaction = copy.begin(READ_COMMITTED)?;
        let mut found = Contents::new();
        for (slot, (id, _)) in
            self.families.iter().enumerate().filter_map(|(slot, known)| Some((slot, (*known)?)))
        {
            let family = copy.family(&name(slot))?.ok_or("a copy lacks a family")?;
            found.insert(id, read(&transaction, family)?);
        }
        drop(transaction);
        drop(copy);
        std::fs::remove_dir_all(&to).map_err(|e| e.to_string())?;
        self.compare(&found)
    }

    fn compare(&self, found: &Contents) -> Verdict {
        let expected = self.history.contents(&self.live(), u64::MAX, NOW);
        if *found == expected {
            return Ok(());
        }
        let differences = self.history.differences(&expected, found);
        Err(format!("the database differs from the oracle: {differences}"))
    }

    fn reopen(&mut self) -> Verdict {
        self.held.clear();
        self.db = None;
        // Either kind reads what the other one has left.
        let db = Database::open(&self.directory, self.random.chance(1, 2))?;
        for (slot, known) in self.families.iter_mut().enumerate() {
            let found = db.family(&name(slot))?;
            if found.is_some() != known.is_some() {
                return Err(format!("family {slot} is there: {}", found.is_some()));
            }
            *known = known.zip(found).map(|((id, _), family)| (id, family));
        }
        self.db = Some(db);
        self.check()
    }

    fn check(&mut self) -> Verdict {
        let transaction = self.db()?.begin(READ_COMMITTED)?;
        let mut found = Contents::new();
        for (id, family) in self.families.iter().flatten() {
            found.insert(*id, read(&transaction, *family)?);
        }
        self.compare(&found)?;
        let picked = key_bytes(1 + self.random.below(self.settings.keys));
        for (id, family) in self.families.iter().flatten() {
            check_other_ways(&transaction, *family, &found[id], &picked)?;
        }
        Ok(())
    }
}

fn add(
    transaction: &mut handles::Transaction,
    family: Family,
    write: &Write,
    bytes: &[u8],
) -> Verdict {
    match write.value {
        Some(value) => transaction.put(family, &write.key, bytes, value.expires_at),
        None => transaction.delete(family, &write.key, write.single),
    }
}

/// Everything that a transaction sees of a family, from a forward scan.
fn read(transaction: &handles::Transaction, family: Family) -> Verdict<Content> {
    let mut content = Content::new();
    let mut iterator = transaction.iterate(family)?;
    let mut entry = iterator.go(Move::First)?;
    while let Some((key, value)) = entry {
        if content.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(format!("a scan went from {:?} to {key:?}", content.last_key_value()));
        }
        content.insert(key, value);
        entry = iterator.go(Move::Next)?;
    }
    Ok(content)
}

/// Backwards, by key, and by seeks to one key.
fn check_other_ways(
    transaction: &handles::Transaction,
    family: Family,
    content: &Content,
    picked: &[u8],
) -> Verdict {
    let mut iterator = transaction.iterate(family)?;
    let mut entry = iterator.go(Move::Last)?;
    for (key, value) in content.iter().rev() {
        if entry.as_ref() != Some(&(key.clone(), value.clone())) {
            return Err(format!("a backward scan met {entry:?} for {key:?}"));
        }
        if transaction.get(family, key, false)?.as_ref() != Some(value) {
            return Err(format!("get of {key:?} differs from a scan"));
        }
        entry = iterator.go(Move::Prev)?;
    }
    if entry.is_some() {
        return Err(format!("a backward scan goes on to {entry:?}"));
    }
    let owned = |entry: Option<(&Vec<u8>, &Vec<u8>)>| entry.map(|(k, v)| (k.clone(), v.clone()));
    let picked = picked.to_vec();
    let next = owned(content.range(picked.clone()..).next());
    let previous = owned(content.range(..=picked.clone()).next_back());
    if iterator.go(Move::Seek(&picked))? != next {
        return Err(format!("a seek to {picked:?} does not find the next key"));
    }
    if iterator.go(Move::SeekForPrev(&picked))? != previous {
        return Err(format!("a seek for the key before {picked:?} does not find it"));
    }
    if transaction.contains(family, &picked)? != content.contains_key(&picked) {
        return Err(format!("contains of {picked:?} differs from a scan"));
    }
    Ok(())
}
