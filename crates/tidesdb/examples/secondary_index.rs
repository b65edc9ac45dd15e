//! A table with an index that is never wrong, in two families.
//!
//! Records and index change in one transaction, so no reader ever sees one without the other, and
//! no crash leaves them apart. The index holds keys only: city, zero, id.
//!
//! `cargo run --release -p tidesdb --example secondary_index`

use tidesdb::{Db, DbOptions, Family, FamilyOptions, IsolationLevel, Result};

struct People {
    db: Db,
    records: Family,
    by_city: Family,
}

fn index_key(city: &[u8], id: &str) -> Vec<u8> {
    [city, b"\0", id.as_bytes()].concat()
}

impl People {
    fn move_to(&self, id: &str, city: &str) -> Result<()> {
        self.db.transaction(IsolationLevel::Snapshot, |transaction| {
            if let Some(old) = transaction.get(&self.records, id.as_bytes())? {
                transaction.delete(&self.by_city, &index_key(&old, id))?;
            }
            transaction.put(&self.records, id.as_bytes(), city.as_bytes())?;
            transaction.put(&self.by_city, &index_key(city.as_bytes(), id), b"")
        })
    }

    fn who_lives_in(&self, city: &str) -> Result<Vec<String>> {
        let prefix = index_key(city.as_bytes(), "");
        let mut ids = Vec::new();
        for entry in self.by_city.prefix(&prefix)? {
            let (key, _) = entry?;
            let id = key.get(prefix.len()..).unwrap_or_default();
            ids.push(String::from_utf8_lossy(id).into_owned());
        }
        Ok(ids)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let db = Db::open(directory.path(), DbOptions::default())?;
    let records = db.open_family("people", FamilyOptions::default())?;
    let by_city = db.open_family("people by city", FamilyOptions::default())?;
    let people = People { db, records, by_city };
    people.move_to("ada", "London")?;
    people.move_to("alan", "London")?;
    people.move_to("grace", "New York")?;
    people.move_to("alan", "Manchester")?;
    assert_eq!(people.who_lives_in("London")?, ["ada"]);
    assert_eq!(people.who_lives_in("Manchester")?, ["alan"]);
    println!("in London: {:?}", people.who_lives_in("London")?);
    Ok(())
}
