//! Measurements that expire by themselves, read by series and time.
//!
//! The key is the series and the time in an order-preserving form, so a range of time is a range
//! of keys. Each value carries a time to live; what has expired is never seen again, and
//! compactions free its space without a call.
//!
//! `cargo run --release -p tidesdb --example time_series`

use std::time::Duration;

use tidesdb::{Db, DbOptions, Family, FamilyOptions, Result};

const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

fn key(series: &str, second: u64) -> Vec<u8> {
    let mut key = Vec::from(series);
    // The zero keeps `cpu` and `cpu2` apart.
    key.push(0);
    key.extend_from_slice(&second.to_be_bytes());
    key
}

fn record(metrics: &Family, series: &str, second: u64, value: f64) -> Result<()> {
    metrics.put_with_ttl(&key(series, second), &value.to_le_bytes(), KEPT)
}

fn average(metrics: &Family, series: &str, from: u64, to: u64) -> Result<Option<f64>> {
    let (mut sum, mut count) = (0.0, 0u32);
    for entry in metrics.range(key(series, from)..key(series, to))? {
        let (_, value) = entry?;
        if let Ok(bytes) = value.as_slice().try_into() {
            sum += f64::from_le_bytes(bytes);
            count += 1;
        }
    }
    Ok((count > 0).then(|| sum / f64::from(count)))
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let metrics = db.open_family("metrics", FamilyOptions::default())?;
    for second in 0..3600 {
        record(&metrics, "cpu", second, second as f64)?;
        record(&metrics, "cpu2", second, 0.0)?;
    }
    // A measurement that expired long ago is stored, and not seen.
    metrics.put_expiring_at(&key("cpu", 10_000), &1e9f64.to_le_bytes(), 1)?;

    assert_eq!(average(&metrics, "cpu", 100, 200)?, Some(149.5));
    assert_eq!(average(&metrics, "cpu", 9000, 20_000)?, None);
    let latest = {
        let mut scan = metrics.prefix(b"cpu\0")?;
        scan.seek_to_last()?;
        scan.valid().then(|| scan.key().to_vec())
    };
    assert_eq!(latest, Some(key("cpu", 3599)));
    println!("an hour of two series, averaged by range");
    Ok(())
}
