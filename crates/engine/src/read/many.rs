//! Many keys at once.

use tidesdb_base::error::Result;

/// Looks keys up in key order, so that neighbours are found in the same block, and answers in the
/// order in which they were given.
///
/// # Errors
/// The first of `get`.
pub(crate) fn in_key_order<K: AsRef<[u8]>>(
    keys: impl IntoIterator<Item = K>,
    mut get: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut keys: Vec<(usize, K)> = keys.into_iter().enumerate().collect();
    keys.sort_by(|(_, one), (_, other)| one.as_ref().cmp(other.as_ref()));
    let mut found = Vec::with_capacity(keys.len());
    for (place, key) in &keys {
        found.push((*place, get(key.as_ref())?));
    }
    found.sort_unstable_by_key(|&(place, _)| place);
    Ok(found.into_iter().map(|(_, value)| value).collect())
}
