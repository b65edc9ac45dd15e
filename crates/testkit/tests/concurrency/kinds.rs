//! Changes of every kind from several threads: each writes keys of its own, which lie between those
//! of the others, and knows what must be there. Ranges are of one thread alone and overlap.

use std::panic::resume_unwind;
use std::sync::Arc;

use tidesdb::{CommittedBatch, CommittedKind};

use super::*;

const WRITERS: u64 = 3;
const OWN_KEYS: u64 = 120;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Writer<'a> {
    db: &'a Db,
    family: &'a Family,
    number: u64,
    random: SplitMix64,
    model: Model,
    held: Option<(Snapshot, Model)>,
}

impl Writer<'_> {
    /// Keys of ten lie together, then come those of the next writer.
    fn key(&self, n: u64) -> Vec<u8> {
        format!("{:03}/{}/{}", n / 10, self.number, n % 10).into_bytes()
    }

    fn any_key(&mut self) -> Vec<u8> {
        let n = self.random.below(OWN_KEYS);
        self.key(n)
    }

    /// A key that is put once before it is deleted.
    fn once(&self) -> Vec<u8> {
        format!("once/{}", self.number).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let number = self.random.next_u64();
        match self.random.below(700) {
            0 => vec![number as u8; (1 << 20) + self.random.index(9)],
            _ => padded(number, &mut self.random),
        }
    }

    /// The part of a block of ten from one key on to another.
    fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let first = self.random.below(OWN_KEYS);
        let length = 1 + self.random.below(10 - first % 10);
        let end = match (first + length) % 10 {
            0 => [self.key(first + length - 1), vec![0]].concat(),
            _ => self.key(first + length),
        };
        (self.key(first), end)
    }

    fn change(&mut self, batch: &mut WriteBatch) {
        let key = self.any_key();
        match self.random.below(20) {
            0 => {
                let (start, end) = self.range();
                batch.delete_range(self.family, &start, &end).unwrap();
                self.model.retain(|key, _| *key < start || *key >= end);
            }
            1..4 => {
                batch.delete(self.family, &key).unwrap();
                self.model.remove(&key);
            }
            4..7 if self.model.contains_key(&self.once()) => {
                batch.single_delete(self.family, self.once()).unwrap();
                self.model.remove(&self.once());
            }
            4..7 => {
                let value = self.value();
                batch.put(self.family, self.once(), &value).unwrap();
                self.model.insert(self.once(), value);
            }
            _ => {
                let value = self.value();
                batch.put(self.family, &key, &value).unwrap();
                self.model.insert(key, value);
            }
        }
    }

    fn step(&mut self) {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.random.below(4) {
            self.change(&mut batch);
        }
        self.db.write(&batch).unwrap();
        for key in [self.any_key(), self.once()] {
            let found = self.family.get(&key).unwrap();
            assert_eq!(found.as_ref(), self.model.get(&key), "{key:?} of writer {}", self.number);
        }
        match self.random.below(60) {
            0 => self.held = Some((self.db.snapshot(), self.model.clone())),
            1 => {
                let Some((snapshot, model)) = self.held.take() else { return };
                let options = ScanOptions::new().snapshot(&snapshot);
                let entries = self.family.scan(options).unwrap().entries();
                let found = own(entries.map(Result::unwrap), self.number);
                assert!(found == model, "a snapshot of writer {}", self.number);
            }
            _ => {}
        }
    }
}

/// Those entries that belong to one writer.
fn own(entries: impl Iterator<Item = (Vec<u8>, Vec<u8>)>, writer: u64) -> Model {
    let writer = writer.to_string();
    let is_own = |key: &[u8]| key.split(|byte| *byte == b'/').nth(1) == Some(writer.as_bytes());
    entries.filter(|(key, _)| is_own(key)).collect()
}

/// No other commit can change a key before its hook was called: its writer waits for it.
fn look(family: &Family, batch: &CommittedBatch<'_>, findings: &Mutex<Vec<String>>) {
    let Some(last) = batch.operations.last() else { return };
    let expected = (last.kind == CommittedKind::Put).then_some(last.value);
    match family.get(last.key) {
        Ok(found) if found.as_deref() == expected => {}
        found => findings.lock().unwrap().push(format!("{:?} is {found:?}", last.key)),
    }
    if batch.sequence.is_multiple_of(7) {
        resume_unwind(Box::new("a panic of the test"));
    }
}

#[test]
fn changes_of_every_kind_are_what_their_writers_know() {
    let seed = seed("kinds");
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let family = db.create_family("data", busy_family()).unwrap();
    let findings = Arc::new(Mutex::new(Vec::new()));
    let (seen, found) = (family.clone(), Arc::clone(&findings));
    family.set_commit_hook(Some(Arc::new(move |batch| look(&seen, batch, &found))));
    let workers = AtomicU64::new(WRITERS);
    let models: Vec<Model> = thread::scope(|scope| {
        let (db, family, workers) = (&db, &family, &workers);
        let writers = (0..WRITERS).map(|number| {
            scope.spawn(move || {
                let _finish = Finish(workers);
                let random = SplitMix64::new(mix64(seed ^ number));
                let model = Model::new();
                let mut writer = Writer { db, family, number, random, model, held: None };
                (0..scaled(2_500)).for_each(|_| writer.step());
                writer.model
            })
        });
        let writers: Vec<_> = writers.collect();
        scope.spawn(move || disturb(db, &[family], workers, mix64(seed)));
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert!(findings.lock().unwrap().is_empty(), "{findings:?}");
    let check = |family: &Family, when: &str| {
        let entries: Model =
            family.scan(ScanOptions::new()).unwrap().entries().map(Result::unwrap).collect();
        let expected: Model =
            models.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        assert!(entries == expected, "{when}");
    };
    check(&family, "at the end");
    family.set_commit_hook(None);
    db.compact().unwrap();
    check(&family, "merged");
    assert!(db.verify().unwrap().problems.is_empty());
    drop(family);
    db.close().unwrap();
    check(&open(directory.path()).family("data").unwrap(), "reopened");
}
