use super::*;

#[test]
fn a_full_value_log_is_a_part_of_the_values() {
    let (mib, gib) = (1 << 20, 1 << 30);
    let full = |value_bytes| full_value_log_bytes(value_bytes, 64 * mib);
    assert_eq!(full(0), 0, "each output has its own");
    assert_eq!(full(32 * mib), mib);
    // From here on up to 64 GiB a log as large as the write buffer is full.
    assert_eq!(full(2 * gib), 64 * mib);
    assert_eq!(full(64 * gib), 64 * mib);
    assert_eq!(full(1 << 40), gib);
    assert_eq!(full(1 << 50), 4 * gib);
}
