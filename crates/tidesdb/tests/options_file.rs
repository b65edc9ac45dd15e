//! Options as TOML and INI: every setting there and back, and what is said of mistakes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidesdb::options_file::OptionsFile;
use tidesdb::{Compression, Db, DbOptions, Error, FamilyOptions, SyncMode};

/// Options of which each differs from its default, as text.
fn changed(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("property."));
    let changed = lines.map(|line| {
        let (name, value) = line.split_once(" = ").unwrap();
        let value = match (name, value) {
            ("compression", _) => "lz4-fast".to_owned(),
            ("sync_mode", _) => "interval:77".to_owned(),
            ("tombstone_density_trigger", _) => "0.25".to_owned(),
            (_, "true") => "false".to_owned(),
            (_, "false") => "true".to_owned(),
            ("max_memory_usage", _) => "123456789".to_owned(),
            (_, number) => match (number.parse::<u64>(), number.parse::<f64>()) {
                (Ok(whole), _) => (whole + 1).to_string(),
                (_, Ok(fraction)) => (fraction * 1.25).to_string(),
                _ => return line.to_owned(),
            },
        };
        format!("{name} = {value}")
    });
    changed.collect::<Vec<_>>().join("\n")
}

fn unusual() -> (DbOptions, FamilyOptions) {
    let database = DbOptions::default();
    let database = database.clone().with_text(&changed(&database.to_text())).unwrap();
    let mut family =
        FamilyOptions::from_text(&changed(&FamilyOptions::default().to_text())).unwrap();
    for (name, value) in [("a.b", " line\r\n\\n \"more\" = ;"), ("empty", ""), ("ü", "\u{1}")] {
        family.properties.insert(name.to_owned(), value.to_owned());
    }
    (database, family)
}

#[test]
fn everything_goes_there_and_back() {
    let (database, family) = unusual();
    let file = OptionsFile::new()
        .with_database(&database)
        .with_family("plain", &family)
        .with_family("with \"odd\" = ] name", &FamilyOptions::default());
    let read = OptionsFile::from_toml(&file.to_toml()).unwrap();
    assert_eq!(read.database_options(DbOptions::default()).unwrap(), database);
    assert_eq!(read.family_options("plain", FamilyOptions::default()).unwrap(), family);
    assert_eq!(read.families().count(), 2);
    let odd = read.family_options("with \"odd\" = ] name", family.clone()).unwrap();
    assert_eq!(odd.properties, family.properties, "what a file does not name stays");
    assert_eq!(odd.block_size, FamilyOptions::default().block_size);

    let read = OptionsFile::from_ini(&file.to_ini()).unwrap();
    assert_eq!(read.family_options("plain", FamilyOptions::default()).unwrap(), family);
    assert_eq!(read.database_options(DbOptions::default()).unwrap(), DbOptions::default());
}

#[test]
fn sizes_have_units_and_what_is_not_named_stays() {
    let file = OptionsFile::from_toml(
        "[database]\nblock_cache_bytes = \"1GiB\"\nflush_threads = 0x3\n\
         [family.f]\nwrite_buffer_size = \"64k\"\nsync_mode = \"interval:5\"\n",
    )
    .unwrap();
    let database = file.database_options(DbOptions::default()).unwrap();
    assert_eq!((database.block_cache_bytes, database.flush_threads), (1 << 30, 3));
    assert_eq!(database.max_open_files, DbOptions::default().max_open_files);
    let family = file.family_options("f", FamilyOptions::default()).unwrap();
    assert_eq!(family.write_buffer_size, 64 << 10);
    assert_eq!(family.sync_mode, SyncMode::Interval { interval_us: 5 });
    let other = file.family_options("other", FamilyOptions::default()).unwrap();
    assert_eq!(other, FamilyOptions::default());
}

#[test]
fn files_of_c_programs_are_read() {
    let file = OptionsFile::from_ini(
        "; a remark\n[f]\nvalue_threshold = 1024\ncompression_algorithm = LZ4_FAST\n\
         enable_bloom_filter = 0\nsync_mode = 2\nsync_interval_us = 9\nmin_levels = 3\n\
         skip_list_probability = 0.250000\ncomparator_name = \n\n[g]\nuse_btree = 1\n",
    )
    .unwrap();
    let f = file.family_options("f", FamilyOptions::default()).unwrap();
    assert_eq!((f.klog_value_threshold, f.compression), (1024, Compression::Lz4Fast));
    assert_eq!(
        (f.enable_bloom_filter, f.sync_mode),
        (false, SyncMode::Interval { interval_us: 9 })
    );
    assert!(file.family_options("g", FamilyOptions::default()).unwrap().use_btree);
}

/// C programs save options as they were given, and TidesDB corrects them when it reads them.
#[test]
fn numbers_of_ini_files_are_brought_within_the_limits() {
    let file = OptionsFile::from_ini(
        "[f]\nwrite_buffer_size = 1\nvalue_threshold = 18446744073709551615\nbloom_fpr = 7\n\
         l0_queue_stall_threshold = -1\ntombstone_density_trigger = 2.000000\nuse_btree = 5\n\
         index_sample_ratio = 3\n",
    )
    .unwrap();
    let f = file.family_options("f", FamilyOptions::default()).unwrap();
    assert_eq!((f.write_buffer_size, f.klog_value_threshold), (4 << 10, 1 << 30));
    assert_eq!((f.bloom_fpr, f.tombstone_density_trigger), (0.01, 1.0));
    assert_eq!((f.l0_queue_stall_threshold, f.index_sample_ratio), (1, 3));
    assert!(f.use_btree);
    assert!(OptionsFile::from_ini("[f]\nwrite_buffer_size = small\n").is_err());
}

fn problems(read: Result<OptionsFile, Error>) -> Vec<String> {
    let Err(Error::InvalidOptions(problems)) = &read else { return vec![format!("{read:?}")] };
    problems.clone()
}

#[track_caller]
fn expect(found: &[String], expected: &[&[&str]]) {
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (problem, parts) in found.iter().zip(expected) {
        for part in *parts {
            assert!(problem.contains(part), "'{part}' is not in '{problem}'");
        }
    }
}

#[test]
fn mistakes_in_toml_are_told_with_line_name_and_what_is_accepted() {
    let text = "stray = 1\n[database]\nflush_threads = 1000\nlog_without_mapping = \"maybe\"\n\
                [famly.x]\na = 1\n[family.f]\ncompression = \"gzip\"\nblock_sise = 1\n\
                bloom_fpr = [1]\nwrite_buffer_size = \"64XB\"\n[family.f.properties]\np = 1\n";
    let found = problems(OptionsFile::from_toml(text));
    expect(
        &found,
        &[
            &["line 1:", "'stray'", "[database]"],
            &["line 3:", "flush_threads is 1000", "at most 256"],
            &["line 4:", "'maybe'", "log_without_mapping", "true or false"],
            &["line 5:", "'famly'", "[family.NAME]"],
            &["line 8:", "'gzip'", "compression", "zstd"],
            &["line 9:", "'block_sise'", "block_size"],
            &["line 10:", "bloom_fpr", "array"],
            &["line 11:", "'64XB'", "write_buffer_size", "64KB"],
            &["line 13:", "'p'", "quotes"],
        ],
    );
    expect(&problems(OptionsFile::from_toml("[database]\n\nx = \n")), &[&["line 3:"]]);
}

#[test]
fn mistakes_in_ini_are_told_with_line_name_and_what_is_accepted() {
    let text = "block_size = 4096\n[f]\ncompression_algorithm = gzip\nuse_btree = yes\n\
                sync_mode = 7\nblock_sise = 1\nblock_size = 1\n";
    expect(
        &problems(OptionsFile::from_ini(text)),
        &[
            &["line 1:", "'block_size'", "section"],
            &["line 3:", "'gzip'", "compression_algorithm", "LZ4_FAST"],
            &["line 4:", "'yes'", "use_btree", "0 or 1"],
            &["line 5:", "'7'", "sync_mode", "interval"],
            &["line 6:", "'block_sise'", "block_size"],
            &["line 7:", "block_size is 1", "128"],
        ],
    );
    expect(&problems(OptionsFile::from_ini("[f]\nno entry\n")), &[&["line 2:"]]);
}

#[test]
fn settings_are_added_one_by_one() {
    let mut file = OptionsFile::new();
    file.set_in_family("f", "compression", "zstd").unwrap();
    file.set_in_family("f", "property.team", "four").unwrap();
    file.set_in_database("block_cache_bytes", "1M").unwrap();
    let family = file.family_options("f", FamilyOptions::default()).unwrap();
    assert_eq!(family.compression, Compression::Zstd);
    assert_eq!(family.properties["team"], "four");
    file.set_in_family("f", "min_disk_space", "10MB").unwrap();
    let family = file.family_options("f", family).unwrap();
    assert_eq!(family.min_disk_space, Some(10 << 20));
    file.set_in_family("f", "min_disk_space", "none").unwrap();
    assert_eq!(file.family_options("f", family).unwrap().min_disk_space, None);
    let refused = file.set_in_family("f", "min_disk_space", "much").unwrap_err().to_string();
    assert!(refused.contains("none, or a size"), "{refused}");
    assert!(file.set_in_family("f", "compression", "gzip").is_err());
    assert!(file.set_in_family("f", "property.a=b", "x").is_err());
    assert!(file.set_in_database("cache", "1").is_err());
}

/// A name with a blank and a `;` or `#` in it made a file that could not be read.
#[test]
fn ini_files_keep_names_with_brackets_and_what_begins_a_remark() {
    let names = ["a]b", "x ; y", "x # ]", "#c", ";", " lead", "trail ", "[z]", "a = b", "]"];
    let mut file = OptionsFile::new();
    for name in names {
        file = file.with_family(name, &FamilyOptions::default().block_size(512));
    }
    let text = file.to_ini();
    let read = OptionsFile::from_ini(&text).unwrap();
    assert!(read.families().eq(file.families()), "{text}");
    for line in ["[f] ; a remark ]", "[f]\t# [g]", "[f]   ;"] {
        let read = OptionsFile::from_ini(&format!("{line}\nblock_size = 512\n")).unwrap();
        assert!(read.families().eq(["f"]), "{line}");
    }
    assert!(OptionsFile::from_ini("[f];no remark\n").is_err());
}

/// They were in force already, and so nothing stored them.
#[test]
fn ensure_family_stores_options_that_were_in_force_until_the_close() {
    let directory = tempfile::tempdir().unwrap();
    let options = FamilyOptions::default().block_size(8192);
    for ensured in [false, true] {
        let db = Db::open(directory.path(), DbOptions::default()).unwrap();
        let family = db.open_family("f", FamilyOptions::default()).unwrap();
        family.set_options_until_close(options.clone()).unwrap();
        if ensured {
            db.ensure_family("f", options.clone()).unwrap();
        }
        db.close().unwrap();
        let db = Db::open(directory.path(), DbOptions::default()).unwrap();
        assert_eq!(db.family("f").unwrap().options() == options, ensured);
        db.close().unwrap();
    }
}

/// It was refused beside the default size of log segments, which it lowers.
#[test]
fn a_small_memory_budget_is_taken_alone() {
    let file = OptionsFile::from_toml("[database]\nmax_memory_usage = \"4MB\"\n").unwrap();
    let options = file.database_options(DbOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), options).unwrap();
    db.open_family("f", FamilyOptions::default()).unwrap().put(b"key", b"value").unwrap();
    assert_eq!(db.stats().memory.budget_bytes, 4 << 20);
    let log = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
    let log = log.filter(|file| file.file_name().to_string_lossy().starts_with("wal-"));
    let bytes: u64 = log.map(|file| file.metadata().unwrap().len()).sum();
    assert!((1..=1 << 20).contains(&bytes), "{bytes} bytes of log");
    assert!(OptionsFile::from_toml("[database]\nmax_memory_usage = \"3MB\"\n").is_err());
}
