//! Values of many keys that lie in value logs: read in the order in which they lie there.

use tidesdb_base::entry::ValueKind;
use tidesdb_base::error::Result;
use tidesdb_files::vlog::ValuePointer;

use super::{Asked, Collect, KEYS_AT_ONCE, Many};
use crate::read::copied;
use crate::read::get::Get;
use crate::version::{Version, resolve};

/// Values of up to this size are read ahead; larger ones are worth a read of their own.
const LARGEST_READ_AHEAD: u64 = 256 << 10;

/// A value in a value log.
#[derive(Debug)]
pub(super) struct Pointer<'k> {
    pub asked: Asked<'k>,
    pub expires_at: u64,
    pub encoded: Vec<u8>,
}

impl<C: Collect> Many<'_, '_, C> {
    /// Reads a value in a value log.
    fn fetch(&mut self, pointer: &Pointer<'_>) -> Result<()> {
        let found = (ValueKind::ValuePointer, pointer.expires_at, pointer.encoded.as_slice());
        let get = Get::new(self.core, self.family, pointer.asked.key, Some(self.read_point));
        if let Some(value) = get.value_of(&self.view.version, found, copied)? {
            self.collect.fetched(pointer.asked.at, value?);
        }
        Ok(())
    }

    /// Reads the values that lie in value logs, in the order in which they lie there.
    pub(super) fn fetch_pointers(&mut self) -> Result<()> {
        let mut pointers = std::mem::take(&mut self.pointers);
        let version = &self.view.version;
        let place = |pointer: &Pointer<'_>| {
            ValuePointer::decode(&pointer.encoded).ok().map(|place| (place.file, place.offset))
        };
        pointers.sort_by_key(place);
        for mut some in pointers.chunks(KEYS_AT_ONCE) {
            let mut announced = false;
            while let Some((pointer, behind)) = some.split_first() {
                let started = self.now();
                self.fetch(pointer)?;
                if !announced && self.is_slow(started) {
                    announced = true;
                    start_reading_values(version, behind);
                }
                some = behind;
            }
        }
        Ok(())
    }
}

/// Asks the system to begin reading values in value logs. What does not decode, or is not there any
/// more, is met again when it is read.
fn start_reading_values(version: &Version, pointers: &[Pointer<'_>]) {
    for pointer in pointers {
        if let Ok((place, file)) = resolve(version, &pointer.encoded)
            && place.record_bytes() <= LARGEST_READ_AHEAD
        {
            file.start_reading(&place);
        }
    }
}
