//! Command lines as people type them, and what becomes of them.

use super::numbers::{parse_count, parse_size};
use super::*;
use crate::orchestrate::Test;
use crate::spec::{Codec, Pattern, Sync, Verify};
use clap::CommandFactory;

fn parsed(line: &str) -> Result<Test, String> {
    let words = ["benchtool", "run"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Command::Run(options) => options.test(),
        _ => Err("not a run".to_owned()),
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
    assert_eq!(parse_size("64M"), Ok(64 << 20));
    assert_eq!(parse_count("5m"), Ok(5_000_000));
    assert!(parse_size("x").is_err());
    assert!(parse_size("99999999999G").is_err());
}

#[test]
fn options_reach_the_test() {
    let test = parsed(
        "--workload read --pattern zipfian --num 5K --cache 1G --sync full --compression none \
         --threads 8 --engine memory,null",
    )
    .unwrap();
    assert_eq!(test.name, "read_zipfian");
    assert_eq!((test.shape.num, test.shape.threads), (5_000, 8));
    assert_eq!(test.shape.seconds, Some(10.0));
    assert_eq!((test.setup.cache, test.setup.sync), (1 << 30, Sync::Full));
    assert_eq!(test.setup.compression, Codec::None);
}

/// Spellings of other tools, and the shape and setup that they must lead to.
#[test]
fn aliases_mean_the_same() {
    let ours = "-w mixed -n 9K -t 3 -b 7 -k 20 -v 200 --update-pct 30 --seconds 2 --cache 8M \
        --memtable 4M --rate 100 --range-size 5";
    let theirs = "--benchmarks mixed --num-keys 9K --threadcount 3 --batch-size 7 --key-size 20 \
        --value-max 200 --write-percent 30 --duration 2 --block-cache-size 8M --write-buffer-size 4M \
        --target 100 --seek-nexts 5";
    assert_eq!(parsed(ours), parsed(theirs));
    assert_eq!(parsed("--sync").unwrap().setup.sync, Sync::Full);
    assert_eq!(parsed("-s").unwrap().shape.pattern, Pattern::Seq);
    assert_eq!(parsed("--verify crc").unwrap().shape.verify, Verify::Full);
    assert_eq!(parsed("-w ycsb-d -n 1K").unwrap().shape.mix.insert, 5);
    assert_eq!(parsed("-w mixed --read-pct 80").unwrap().shape.mix.update, 20);
    assert!(!parsed("-w seekrandom --iter-reuse false").unwrap().shape.iter_reuse);
}

#[test]
fn filters_are_named_by_bits_by_share_or_not_at_all() {
    let bits = |line: &str| parsed(line).unwrap().setup.bloom_bits;
    assert_eq!(bits("--bloom-fpr 0.01"), bits("--bloom-bits 10"));
    assert_eq!(bits("--bloom-fpr 0.5"), 2);
    assert_eq!(bits("--no-bloom-filters"), 0);
}

#[test]
fn options_win_over_presets() {
    let test = parsed("-w ycsb-a --value-size 50 --update-pct 10").unwrap();
    assert_eq!((test.shape.value_size, test.shape.mix.update), (50, 10));
    assert_eq!((test.shape.pattern, test.shape.key_size), (Pattern::Zipfian, 24));
}

#[test]
fn contradictions_are_refused() {
    for (line, part) in [
        ("-w mixed --insert-pct 5", "--spare"),
        ("-w mixed --read-pct 60 --update-pct 60", "add up"),
        ("-w mixed --read-pct 80 --insert-pct 20 --spare 9K", "read 80, update 50, insert 20"),
        ("-w mixed --read-pct 80 --insert-pct 20 --spare 9K", "--update-pct"),
        ("--seconds 0", "positive"),
        ("--rate -1", "unexpected argument"),
        ("--open-loop", "--rate"),
        ("--hotspot 2:1", "share"),
        ("-w redrandom", "readrandom"),
        ("--pattern zipfan", "zipfian"),
        ("--engine-opt rocksdb", "ENGINE:NAME=VALUE"),
    ] {
        let problem = parsed(line).unwrap_err();
        assert!(problem.contains(part), "{line}: {problem}");
    }
}
