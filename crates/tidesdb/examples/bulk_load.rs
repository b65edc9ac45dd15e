//! Loading many records: batches, one wait for the disk at the end, and sorted keys if possible.
//!
//! A batch is one record of the log, so a thousand puts cost little more than one. Keys in order
//! make tables that do not overlap; compactions move such tables with an edit of the manifest and
//! rewrite nothing.
//!
//! `cargo run --release -p tidesdb --example bulk_load`

use tidesdb::{Db, DbOptions, FamilyOptions, WriteBatch, WriteOptions};

const RECORDS: u32 = 20_000;
const BATCH: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let family = db.open_family("words", FamilyOptions::default())?;
    let mut batch = WriteBatch::new();
    for number in 0..RECORDS {
        batch.put(&family, format!("{number:08}").as_bytes(), b"what is stored")?;
        if batch.len() == BATCH {
            db.write(&batch)?;
            // The batch keeps its memory.
            batch.clear();
        }
    }
    // The last batch waits for the disk, and with it everything before.
    db.write_with(&batch, WriteOptions::new().sync(true))?;
    assert_eq!(family.prefix("0000")?.into_iter().count(), 10_000);

    // After one compaction reads find everything in one sorted run.
    family.compact()?;
    let stats = family.stats();
    assert_eq!(stats.read_amplification, 1);
    let bytes: u64 = stats.levels.iter().map(|level| level.bytes).sum();
    println!("{RECORDS} records in {bytes} bytes of tables");
    db.close()?;
    Ok(())
}
