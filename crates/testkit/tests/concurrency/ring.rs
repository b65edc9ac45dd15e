//! A ring of keys of which each names the next.

use super::*;

/// Walks the ring of a snapshot and returns how many nodes it has.
fn walk(family: &Family, snapshot: &Snapshot) -> usize {
    let (mut at, mut steps) = (0, 0);
    loop {
        let Some(value) = family.get_at(snapshot, &node(at)).unwrap() else {
            panic!("node {at} is pointed at and not there, after {steps} steps");
        };
        at = number_of(&value);
        steps += 1;
        if at == 0 {
            return steps;
        }
        assert!(steps <= 2_000, "the ring does not close");
    }
}

/// Takes a node out of the ring or puts one in, behind a random one.
fn relink(db: &Db, family: &Family, ring: &Mutex<Vec<u64>>, random: &mut SplitMix64) {
    let mut ring = ring.lock().unwrap();
    let mut batch = WriteBatch::new();
    let at = random.index(ring.len());
    let behind = ring[(at + 1) % ring.len()];
    let new = 1 + random.below(300);
    if behind != 0 && random.chance(1, 2) {
        let after = ring[(at + 2) % ring.len()];
        batch.delete(family, &node(behind)).unwrap();
        batch.put(family, &node(ring[at]), &padded(after, random)).unwrap();
        ring.retain(|&number| number != behind);
    } else if !ring.contains(&new) {
        batch.put(family, &node(new), &padded(behind, random)).unwrap();
        batch.put(family, &node(ring[at]), &padded(new, random)).unwrap();
        ring.insert(at + 1, new);
    }
    db.write(&batch).unwrap();
}

#[test]
fn a_ring_of_keys_stays_a_ring() {
    let seed = seed("ring");
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let family = db.create_family("ring", busy_family()).unwrap();
    family.put(&node(0), &0u64.to_le_bytes()).unwrap();
    let ring = Mutex::new(vec![0]);
    let workers = AtomicU64::new(6);
    thread::scope(|scope| {
        let (db, family, ring, workers) = (&db, &family, &ring, &workers);
        for worker in 0..6 {
            scope.spawn(move || {
                let _finish = Finish(workers);
                let mut random = SplitMix64::new(mix64(seed ^ worker));
                if worker < 3 {
                    (0..scaled(5_000)).for_each(|_| relink(db, family, ring, &mut random));
                    return;
                }
                for _ in 0..scaled(300) {
                    let snapshot = db.snapshot();
                    let nodes = walk(family, &snapshot);
                    let scan = family.scan(ScanOptions::new().snapshot(&snapshot)).unwrap();
                    assert_eq!(scan.entries().count(), nodes, "nodes outside the ring");
                }
            });
        }
        scope.spawn(move || disturb(db, &[family], workers, mix64(seed)));
    });
    assert_eq!(walk(&family, &db.snapshot()), ring.lock().unwrap().len());
    assert!(db.verify().unwrap().problems.is_empty());
}
