//! Options of indexes and filters, by what tables take in memory and in files. Answers are the same
//! whatever they are, so that nothing else shows whether they are heeded.

use tidesdb::{Compression, FilterKind};

use super::*;

const KEYS: u32 = 20_000;

/// What one table of [`KEYS`] keys takes.
#[derive(Debug)]
struct Taken {
    /// In memory, of index and filter, when one key was asked for.
    memory_bytes: u64,
    file_bytes: u64,
    reads: tidesdb::ReadStats,
    trees: tidesdb::TreeStats,
}

fn take(options: FamilyOptions) -> Taken {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), DbOptions::default()).unwrap();
    let options = options.compression(Compression::None).block_size(256);
    let family = db.create_family("default", options).unwrap();
    for n in 0..KEYS {
        family.put(&key(n), &n.to_be_bytes()).unwrap();
    }
    family.flush().unwrap();
    assert_eq!(db.stats().tables, 1);
    assert!(family.contains(&key(7)).unwrap());
    let memory_bytes = db.stats().memory.table_bytes;
    // Between the others, so that no range of keys excludes them.
    for n in 0..KEYS {
        assert!(!family.contains(&[key(n).as_slice(), b"x"].concat()).unwrap());
    }
    let file_bytes = file_bytes(directory.path(), ".klog");
    let (reads, trees) = (family.stats().reads, family.tree_stats().unwrap());
    Taken { memory_bytes, file_bytes, reads, trees }
}

#[test]
fn an_index_is_in_memory_whole_in_part_or_as_it_is_needed() {
    let options = || FamilyOptions::default().enable_bloom_filter(false);
    let whole = take(options());
    let [few, many] = [8, 32].map(|ratio| take(options().index_sample_ratio(ratio)));
    let none = take(options().enable_block_indexes(false));
    let memory = [&whole, &few, &many, &none].map(|taken| taken.memory_bytes);
    println!("{memory:?}, {:?} {:?} {:?}", few.trees, many.trees, none.trees);
    assert_eq!(whole.trees.flat_tables, 1, "{whole:?}");
    // What a table takes besides is in all of them.
    assert!(memory[0] > memory[1] + 10_000 && memory[1] > memory[2] + 2_000, "{memory:?}");
    assert!(memory[0] > memory[3] + 10_000, "{memory:?}");
    // A root over nodes of so many blocks, or of so many bytes.
    let leaves = none.trees.levels[0].leaves;
    for (taken, ratio) in [(&few, 8), (&many, 32)] {
        let level = taken.trees.levels[0];
        assert_eq!((taken.trees.height(), level.leaves), (3, leaves), "{taken:?}");
        assert_eq!(level.index_nodes, leaves.div_ceil(ratio), "{taken:?}");
    }
    let nodes = none.trees.levels[0].index_nodes;
    assert!(nodes > leaves / 32 && nodes < leaves / 8, "as large as a block: {none:?}");
}

#[test]
fn filters_are_kept_or_left_out_and_made_as_was_asked() {
    let bloom = take(FamilyOptions::default());
    let ribbon = take(FamilyOptions::default().filter_kind(FilterKind::Ribbon));
    let none = take(FamilyOptions::default().enable_bloom_filter(false));
    assert_eq!(none.reads.filters_asked, 0, "{none:?}");
    // The last key lies behind the table.
    assert_eq!(none.reads.tables_searched, u64::from(KEYS), "{none:?}");
    for taken in [&bloom, &ribbon] {
        assert!(taken.reads.filters_asked >= u64::from(KEYS) - 1, "{taken:?}");
        assert!(taken.reads.filter_false_positive_rate() < 0.03, "{taken:?}");
    }
    // Bits for each key, in files and in memory.
    let bits = |bytes: u64, without: u64| (bytes - without) as f64 * 8.0 / f64::from(KEYS);
    let of = |taken: &Taken| {
        let in_memory = bits(taken.memory_bytes, none.memory_bytes);
        (bits(taken.file_bytes, none.file_bytes), in_memory)
    };
    let (bloom, ribbon) = (of(&bloom), of(&ribbon));
    println!("{bloom:?} {ribbon:?}");
    for (of_bloom, of_ribbon) in [(bloom.0, ribbon.0), (bloom.1, ribbon.1)] {
        assert!(of_bloom > 9.0 && of_bloom < 12.0, "{bloom:?}");
        assert!(of_ribbon > 6.0 && of_ribbon < 8.5, "{ribbon:?}");
    }
}
