//! Random operations, time and snapshots against an ordered map.

use super::*;

/// What a reader must find: of each key the newest version, if it has not expired.
type Model = BTreeMap<u32, (u8, u64)>;

struct Walk {
    bench: Bench,
    random: SplitMix64,
    model: Model,
    /// With the time at which they were taken.
    snapshots: Vec<(Snapshot, Model, u64)>,
}

impl Walk {
    fn step(&mut self) {
        let n = self.random.below(60) as u32;
        let (key, fill) = (n.to_be_bytes(), self.random.below(250) as u8);
        let expires_at = self.bench.now() + 1 + self.random.below(300);
        let family = &self.bench.family;
        match self.random.below(100) {
            0..=14 => self.put(n, fill, 0),
            15..=54 => self.put(n, fill, expires_at),
            55..=59 => self.flush_alone(n, fill, expires_at),
            60..=64 => {
                family.delete(&key).unwrap();
                self.model.remove(&n);
            }
            65..=66 => {
                family.delete_range(&key, &(n + 10).to_be_bytes()).unwrap();
                self.model.retain(|&at, _| at < n || at >= n + 10);
            }
            67..=72 => {
                let (snapshot, now) = (self.bench.db.snapshot(), self.bench.now());
                self.snapshots.push((snapshot, self.model.clone(), now));
            }
            73..=78 if !self.snapshots.is_empty() => {
                let at = self.random.index(self.snapshots.len());
                drop(self.snapshots.swap_remove(at));
            }
            79..=84 => family.flush().unwrap(),
            85 => family.compact().unwrap(),
            86..=89 => self.bench.clock.advance(Duration::from_secs(self.random.below(100))),
            _ => self.bench.idle_for(self.random.below(30)),
        }
    }

    /// A table of these values alone.
    fn flush_alone(&mut self, n: u32, fill: u8, expires_at: u64) {
        self.bench.family.flush().unwrap();
        (n..n + 5).for_each(|n| self.put(n, fill, expires_at));
        self.bench.family.flush().unwrap();
    }

    fn put(&mut self, n: u32, fill: u8, expires_at: u64) {
        let length = 10 + self.random.index(400);
        let value = vec![fill; length];
        self.bench.family.put_expiring_at(&n.to_be_bytes(), &value, expires_at).unwrap();
        self.model.insert(n, (fill, expires_at));
    }

    fn check(&self, step: u64) {
        let expected = |model: &Model, n: u32, now: u64| {
            let found = model.get(&n).filter(|(_, at)| *at == 0 || *at > now);
            found.map(|(fill, _)| *fill)
        };
        for n in 0..70_u32 {
            let found = self.bench.get(n).map(|value| value[0]);
            assert_eq!(found, expected(&self.model, n, self.bench.now()), "key {n} at step {step}");
            for (snapshot, model, taken_at) in &self.snapshots {
                let found = self.bench.family.get_at(snapshot, &n.to_be_bytes()).unwrap();
                let found = found.map(|value| value[0]);
                let wanted = expected(model, n, *taken_at);
                assert_eq!(found, wanted, "key {n} of a snapshot at step {step}");
            }
        }
    }
}

/// Everything at once: whatever goes when, readers and snapshots see what an ordered map says, and
/// in the end nothing is left.
#[test]
fn readers_see_the_same_whatever_has_gone() {
    let mut random = SplitMix64::new(seed("expiry"));
    for _ in 0..scaled(20) {
        let threshold = if random.below(2) == 0 { 200 } else { 100_000 };
        let bench = Bench::with_values_from(threshold);
        let random = SplitMix64::new(random.next_u64());
        let mut walk = Walk { bench, random, model: Model::new(), snapshots: Vec::new() };
        for step in 0..400 {
            walk.step();
            if step % 10 == 0 {
                walk.check(step);
            }
        }
        walk.snapshots.clear();
        walk.check(400);
        walk.bench.check_files();
        walk.bench.family.delete_range(&[0], &[255]).unwrap();
        (0..60).for_each(|n| walk.put(n, 1, walk.bench.now() + 60));
        walk.bench.family.flush().unwrap();
        walk.bench.idle_for(100);
        walk.bench.idle_for(100);
        assert_eq!(walk.bench.table_bytes() + walk.bench.value_bytes(), 0);
    }
}
