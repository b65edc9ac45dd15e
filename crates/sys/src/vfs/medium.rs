//! Which errors of the kernel mean that bytes on the disk can't be read, and which do not.

use std::io;

/// Whether an error of opening or reading a file says that the medium, or what the file system
/// keeps on it, is damaged there. All others say something of this process or machine: no
/// descriptor or memory is left, a permission is missing, a device or server has gone.
#[must_use]
pub fn means_damage(error: &io::Error) -> bool {
    let Some(number) = error.raw_os_error() else { return false };
    #[cfg(target_os = "linux")]
    // A file system whose own structures are damaged; a checksum of a block layer; a target that
    // fails.
    let other = [libc::EUCLEAN, libc::ENODATA, libc::EILSEQ, libc::EREMOTEIO].contains(&number);
    #[cfg(not(target_os = "linux"))]
    let other = false;
    other || number == libc::EIO || number == libc::EBADMSG
}

/// Whether an error of opening or reading a file says only that no descriptor or no memory was
/// left: nothing of the file, and it may pass at once.
#[must_use]
pub fn means_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| shortages.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_process_lacks_is_no_damage() {
        let tells = |number| means_damage(&io::Error::from_raw_os_error(number));
        assert!([libc::EIO, libc::EBADMSG].into_iter().all(tells));
        let lacking = [libc::EMFILE, libc::ENFILE, libc::EACCES, libc::ENOMEM, libc::ESTALE];
        assert!(!lacking.into_iter().any(tells));
        let passes = |number| means_shortage(&io::Error::from_raw_os_error(number));
        assert!([libc::EMFILE, libc::ENFILE, libc::ENOMEM].into_iter().all(passes));
        assert!(![libc::EIO, libc::ENOENT, libc::EACCES].into_iter().any(passes));
        assert!(!means_damage(&io::ErrorKind::UnexpectedEof.into()));
    }
}
