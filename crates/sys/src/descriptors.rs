//! How many files this process may have open.

use crate::os_calls;

/// The number of descriptors that the process may have open at a time, as set now; `None` when
/// there is no limit, or the platform does not report one.
#[must_use]
pub fn limit() -> Option<u64> {
    os_calls::descriptor_limit()
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn the_limit_is_the_soft_one() {
        let text = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft = line.split_whitespace().nth(3).unwrap();
        assert_eq!(super::limit(), soft.parse().ok());
    }
}
