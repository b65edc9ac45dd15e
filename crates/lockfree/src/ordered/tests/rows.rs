//! Rows of inserts against a `BTreeMap`: batches beside one another on one tree.

use super::super::*;
use super::differential::{
    Model, Random, check_all, check_place, model_insert, new_index, random_key,
};

/// A batch of a row: keys that ascend, or that are in no order.
fn batch(random: &mut Random, shape: u64) -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..random.below(40)).map(|_| random_key(random, shape)).collect();
    if random.below(3) > 0 {
        keys.sort();
    }
    keys
}

fn rows<const FANOUT: usize>(seed: u64) {
    let mut random = Random::new("rows", seed);
    let (rounds, batches) = if cfg!(miri) { (2, 3) } else { (40, 60) };
    for round in 0..rounds {
        let tree = new_index::<BPlusTree<FANOUT>>();
        let mut model = Model::new();
        let mut seq = 0;
        for _ in 0..batches {
            let shape = (round + random.below(2)) % 5;
            let mut batches = [batch(&mut random, shape), batch(&mut random, shape)];
            batches.iter_mut().for_each(|keys| keys.reverse());
            let mut rows = [tree.row(), tree.row()];
            // The two rows take turns, and what either does splits leaves that the other knows.
            while batches.iter().any(|keys| !keys.is_empty()) {
                let turn = random.below(3) as usize;
                let Some(key) = batches[turn % 2].pop() else { continue };
                seq += 1;
                let version = NewVersion { seq, kind: 1, expires_at: 0, value: &key };
                match rows.get_mut(turn) {
                    Some(row) => row.insert(&key, version).unwrap(),
                    None => tree.insert(&key, version).unwrap(),
                }
                model_insert(&mut model, &key, version);
                if seq % 50 == 0 {
                    check_place(&tree, &model, &mut random, &key);
                }
            }
        }
        check_all(&tree, &model);
    }
}

#[test]
fn rows_of_inserts_make_what_single_inserts_make() {
    rows::<64>(1);
    rows::<3>(2);
    rows::<4>(3);
    rows::<7>(4);
}
