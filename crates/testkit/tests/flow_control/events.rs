//! What listeners are told of writers that are held back and of memory, with its numbers.

use super::*;

type Told = Arc<Mutex<Vec<Event>>>;

fn open(fixture: &Fixture, options: DbOptions) -> (Db, Told) {
    let told = Told::default();
    let events = Arc::clone(&told);
    let listen = move |event: &Event| events.lock().unwrap().push(event.clone());
    (fixture.open_with(options, EventListener::new(listen)), told)
}

#[test]
fn slowed_writers_are_told_with_family_reason_and_rate() {
    let fixture = Fixture::new();
    let (db, told) = open(&fixture, DbOptions::default());
    let family = db.create_family("slowed", small().l1_file_count_trigger(2)).unwrap();
    db.stop_compactions().unwrap();
    let began = fixture.clock.monotonic_nanos();
    for n in 0_u64..12_000 {
        family.put(&n.to_be_bytes(), &[7; 100]).unwrap();
    }
    let seconds = (fixture.clock.monotonic_nanos() - began) / 1_000_000_000;
    let told = told.lock().unwrap();
    let mut slowed = 0;
    for event in told.iter() {
        let Event::WritesSlowed { family, reason, bytes_per_second } = event else { continue };
        if *reason == StallReason::CompactionDebt {
            assert_eq!(family, "slowed");
            assert!(*bytes_per_second > 0, "{event}");
            slowed += 1;
        }
    }
    assert!(slowed > 0, "{told:?}");
    assert!(slowed <= 1 + seconds / 10, "{slowed} in {seconds} s: one in ten seconds is enough");
}

#[test]
fn each_level_of_memory_that_stays_is_told_with_its_figures() {
    let budget = 4 << 20;
    let fixture = Fixture::new();
    let (db, told) = open(&fixture, DbOptions::default().max_memory_usage(budget));
    let options = FamilyOptions::default().min_disk_space(0);
    let family = db.create_family("family", options).unwrap();
    let last = || {
        let told = told.lock().unwrap();
        told.iter().rev().find_map(|event| match *event {
            Event::MemoryLevelChanged { level, used_bytes, budget_bytes } => {
                assert_eq!(budget_bytes, budget);
                Some((level, used_bytes * 100 / budget_bytes))
            }
            _ => None,
        })
    };
    assert_eq!(last(), None);
    // Scans hold on to the memtables that they read, flushed or not.
    let mut scans = Vec::new();
    for n in 0_u64..40_000 {
        family.put(&n.to_be_bytes(), &[n as u8; 100]).unwrap();
        if n % 1000 == 0 {
            scans.push(family.scan(ScanOptions::new()).unwrap());
        }
    }
    assert_eq!(db.stats().memory.level, MemoryLevel::Critical);
    fixture.clock.advance(Duration::from_secs(11));
    for n in 0_u64..1000 {
        family.put(&n.to_be_bytes(), &[n as u8; 100]).unwrap();
    }
    let (level, per_cent) = last().unwrap();
    assert_eq!(level, MemoryLevel::Critical, "{:?}", told.lock().unwrap());
    assert!((95..200).contains(&per_cent), "{per_cent} %");
    drop(scans);
    family.flush().unwrap();
    fixture.clock.advance(Duration::from_secs(11));
    // Told by the next look at the memory, of which there is one for so many bytes.
    let is_calm = |n: u64| {
        family.put(&n.to_be_bytes(), &[n as u8; 100]).unwrap();
        last().is_some_and(|(level, _)| level < MemoryLevel::High)
    };
    assert!((0..40_000).any(is_calm), "{:?}: {:?}", db.stats().memory, told.lock().unwrap());
    let (level, per_cent) = last().unwrap();
    assert!(per_cent < 75, "{level:?} at {per_cent} %");
}
