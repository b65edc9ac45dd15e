//! Block compression behind one enum.
//!
//! The codecs are libraries: LZ4 and Zstandard are the reference implementations, Snappy is the
//! pure Rust one. A block is never stored larger than raw: the caller keeps the raw bytes when
//! [`Compression::compress`] returns `false`.

use std::cell::RefCell;

use crate::codec::Malformed;

/// How blocks and large values are compressed. The discriminants are persisted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Stored as they are.
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// LZ4, the default: about 2 GB/s in, 9 GB/s out.
    #[default]
    Lz4 = 2,
    /// Zstandard, level 3: smaller and several times slower than LZ4.
    Zstd = 3,
    /// LZ4 with acceleration 8: faster and larger than LZ4; read like LZ4.
    Lz4Fast = 4,
}

const LZ4_FAST_ACCELERATION: i32 = 8;
const ZSTD_LEVEL: i32 = 3;

/// Raw bytes up to which a thread's context is used. One that has seen more holds megabytes.
const MOST_RAW_BYTES: usize = 256 << 10;

/// What the codecs work with. To make it takes longer than to compress or decompress a block, so a
/// thread makes it once and keeps it: some 160 KiB to decompress Zstandard, up to 1.5 MiB to
/// compress with it, 64 KiB for Snappy.
struct Contexts {
    snappy: Option<snap::raw::Encoder>,
    zstd_in: Option<zstd::bulk::Compressor<'static>>,
    zstd_out: Option<zstd::bulk::Decompressor<'static>>,
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> =
        const { RefCell::new(Contexts { snappy: None, zstd_in: None, zstd_out: None }) };
}

/// Calls `work` with the contexts of the thread: with none made yet when it handles `raw_bytes`
/// that are many, or when the thread is ending.
fn with_contexts<R>(raw_bytes: usize, mut work: impl FnMut(&mut Contexts) -> R) -> R {
    let fresh = || Contexts { snappy: None, zstd_in: None, zstd_out: None };
    if raw_bytes > MOST_RAW_BYTES {
        return work(&mut fresh());
    }
    let kept = CONTEXTS.try_with(|contexts| work(&mut contexts.borrow_mut()));
    kept.unwrap_or_else(|_| work(&mut fresh()))
}

impl Contexts {
    fn snappy(&mut self) -> &mut snap::raw::Encoder {
        self.snappy.get_or_insert_with(snap::raw::Encoder::new)
    }

    fn zstd_in(&mut self) -> Option<&mut zstd::bulk::Compressor<'static>> {
        if self.zstd_in.is_none() {
            self.zstd_in = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        }
        self.zstd_in.as_mut()
    }

    fn zstd_out(&mut self) -> Option<&mut zstd::bulk::Decompressor<'static>> {
        if self.zstd_out.is_none() {
            self.zstd_out = zstd::bulk::Decompressor::new().ok();
        }
        self.zstd_out.as_mut()
    }
}

impl Compression {
    /// Every codec, in the order of the persisted numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Snappy, Self::Lz4, Self::Zstd, Self::Lz4Fast];

    /// Decodes the persisted discriminant.
    #[must_use]
    pub const fn from_u8(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::Snappy),
            2 => Some(Self::Lz4),
            3 => Some(Self::Zstd),
            4 => Some(Self::Lz4Fast),
            _ => None,
        }
    }

    /// The name used in options text and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Lz4Fast => "lz4-fast",
        }
    }

    /// The codec of that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Replaces `out` by the compressed form of `raw`. Returns `false`, leaving `out` unspecified,
    /// when the codec is `None`, fails, or does not make the bytes at least an eighth smaller.
    #[must_use]
    pub fn compress(self, raw: &[u8], out: &mut Vec<u8>) -> bool {
        let worth = raw.len() - raw.len() / 8;
        out.clear();
        let length = match self {
            Self::None => return false,
            Self::Snappy => {
                out.resize(snap::raw::max_compress_len(raw.len()), 0);
                with_contexts(raw.len(), |with| with.snappy().compress(raw, out).ok())
            }
            Self::Lz4 => lz4_compress(raw, out, None),
            Self::Lz4Fast => lz4_compress(raw, out, Some(LZ4_FAST_ACCELERATION)),
            Self::Zstd => {
                out.resize(zstd::zstd_safe::compress_bound(raw.len()), 0);
                with_contexts(raw.len(), |with| {
                    with.zstd_in()?.compress_to_buffer(raw, out.as_mut_slice()).ok()
                })
            }
        };
        match length {
            Some(length) if length < worth => {
                out.truncate(length);
                true
            }
            _ => false,
        }
    }

    /// Decompresses `stored` into `raw`, whose length is the exact raw length.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a compressed form of exactly that many bytes.
    pub fn decompress(self, stored: &[u8], raw: &mut [u8]) -> Result<(), Malformed> {
        let length = match self {
            Self::None => {
                if stored.len() != raw.len() {
                    return Err(Malformed);
                }
                raw.copy_from_slice(stored);
                stored.len()
            }
            Self::Snappy => {
                snap::raw::Decoder::new().decompress(stored, raw).map_err(|_| Malformed)?
            }
            Self::Lz4 | Self::Lz4Fast => {
                let size = i32::try_from(raw.len()).map_err(|_| Malformed)?;
                lz4::block::decompress_to_buffer(stored, Some(size), raw).map_err(|_| Malformed)?
            }
            Self::Zstd => with_contexts(raw.len(), |with| {
                with.zstd_out()?.decompress_to_buffer(stored, raw).ok()
            })
            .ok_or(Malformed)?,
        };
        if length == raw.len() { Ok(()) } else { Err(Malformed) }
    }
}

fn lz4_compress(raw: &[u8], out: &mut Vec<u8>, acceleration: Option<i32>) -> Option<usize> {
    let bound = lz4::block::compress_bound(raw.len()).ok()?;
    out.resize(bound, 0);
    let mode = acceleration.map(lz4::block::CompressionMode::FAST);
    lz4::block::compress_to_buffer(raw, mode, false, out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i / 7 % 11) as u8).collect()
    }

    #[test]
    fn every_codec_round_trips_and_shrinks_repetitive_bytes() {
        for codec in Compression::ALL {
            for length in [64usize, 4096, 70_000] {
                let raw = sample(length);
                let mut stored = Vec::new();
                if codec == Compression::None {
                    assert!(!codec.compress(&raw, &mut stored));
                    continue;
                }
                assert!(codec.compress(&raw, &mut stored), "{codec:?} {length}");
                let mut back = vec![0; length];
                codec.decompress(&stored, &mut back).unwrap();
                assert_eq!(back, raw);
                assert_eq!(codec.decompress(&stored, &mut vec![0; length + 1]), Err(Malformed));
            }
        }
    }

    #[test]
    fn damaged_input_is_an_error_or_other_bytes_but_never_a_panic() {
        let raw = sample(1000);
        for codec in Compression::ALL {
            let mut stored = Vec::new();
            if !codec.compress(&raw, &mut stored) {
                continue;
            }
            for at in 0..stored.len() {
                let mut bad = stored.clone();
                bad[at] ^= 0x55;
                let _ = codec.decompress(&bad, &mut vec![0; raw.len()]);
                let _ = codec.decompress(&stored[..at], &mut vec![0; raw.len()]);
            }
        }
    }

    #[test]
    fn incompressible_bytes_are_refused() {
        let mut state = 0x1234_5678_9ABC_DEF1u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        for codec in Compression::ALL {
            assert!(!codec.compress(&noise, &mut Vec::new()));
        }
    }

    #[test]
    fn blocks_of_all_lengths_do_not_meet_what_the_thread_compressed_before() {
        let lengths = [70_000, 64, MOST_RAW_BYTES + 1, 4096, MOST_RAW_BYTES, 100];
        for codec in [Compression::Snappy, Compression::Zstd] {
            for length in lengths {
                let raw = sample(length);
                let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
                assert!(codec.compress(&raw, &mut here));
                // Another thread begins with contexts of its own.
                std::thread::scope(|scope| {
                    scope.spawn(|| assert!(codec.compress(&raw, &mut elsewhere)));
                });
                assert_eq!(here, elsewhere, "{codec:?} {length}");
                let mut back = vec![0; length];
                codec.decompress(&here, &mut back).unwrap();
                assert!(back == raw, "{codec:?} {length}");
                let damaged = here.get(..here.len() / 2).unwrap();
                assert!(codec.decompress(damaged, &mut back).is_err(), "{codec:?} {length}");
            }
        }
    }

    /// Values are read and written in destructors, too.
    #[test]
    fn a_thread_that_is_ending_still_compresses() {
        struct AtTheEnd;
        impl Drop for AtTheEnd {
            fn drop(&mut self) {
                let (raw, mut stored) = (sample(4096), Vec::new());
                assert!(Compression::Zstd.compress(&raw, &mut stored));
                let mut back = vec![0; raw.len()];
                Compression::Zstd.decompress(&stored, &mut back).unwrap();
                ENDED.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        }
        static ENDED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        thread_local!(static AT_THE_END: AtTheEnd = const { AtTheEnd });
        let thread = std::thread::spawn(|| {
            AT_THE_END.with(|_| ());
            assert!(Compression::Zstd.compress(&sample(64 << 10), &mut Vec::new()));
        });
        thread.join().unwrap();
        assert!(ENDED.load(std::sync::atomic::Ordering::SeqCst));
    }
}
