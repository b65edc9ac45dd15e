use super::*;

const ALL: [Encoding; 3] = [Encoding::Text, Encoding::Hex, Encoding::Base64];

fn encoded(encoding: Encoding, bytes: &[u8]) -> String {
    let mut out = Vec::new();
    encoding.encode(bytes, &mut out);
    String::from_utf8(out).unwrap()
}

fn decoded(encoding: Encoding, text: &str) -> Result<Vec<u8>, BadText> {
    let mut out = Vec::new();
    encoding.decode(text.as_bytes(), &mut out).map(|()| out)
}

#[test]
fn every_byte_string_survives_every_encoding() {
    let every_byte: Vec<u8> = (0..=255).collect();
    for encoding in ALL {
        for length in 0..=every_byte.len() {
            for bytes in [&every_byte[..length], &every_byte[every_byte.len() - length..]] {
                let text = encoded(encoding, bytes);
                assert_eq!(decoded(encoding, &text).unwrap(), bytes, "{encoding:?} {text}");
                assert!(!text.contains(['\t', '\n', '\r', '\x1b']), "{encoding:?} {text}");
            }
        }
    }
}

#[test]
fn text_keeps_what_people_can_read() {
    assert_eq!(encoded(Encoding::Text, "naïve 漢字".as_bytes()), "naïve 漢字");
    assert_eq!(encoded(Encoding::Text, b"a\tb\nc\rd\\e\x00\xff"), r"a\tb\nc\rd\\e\x00\xff");
    assert_eq!(encoded(Encoding::Text, "\u{feff}a\u{85}".as_bytes()), r"\xef\xbb\xbfa\xc2\x85");
    assert_eq!(decoded(Encoding::Text, r"\x4A\x4b").unwrap(), b"JK");
}

#[test]
fn known_forms_of_hex_and_base64() {
    assert_eq!(encoded(Encoding::Hex, b"\x00\xab"), "00ab");
    assert_eq!(decoded(Encoding::Hex, "00AB").unwrap(), b"\x00\xab");
    for (bytes, text) in
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
    {
        assert_eq!(encoded(Encoding::Base64, bytes.as_bytes()), text);
        assert_eq!(decoded(Encoding::Base64, text).unwrap(), bytes.as_bytes());
        assert_eq!(
            decoded(Encoding::Base64, text.trim_end_matches('=')).unwrap(),
            bytes.as_bytes()
        );
    }
}

#[test]
fn wrong_text_is_refused_with_its_place() {
    let wrong = [
        (Encoding::Text, r"ab\", 2),
        (Encoding::Text, r"ab\q", 2),
        (Encoding::Text, r"\x4", 0),
        (Encoding::Text, r"\\\xg0", 2),
        (Encoding::Hex, "0", 1),
        (Encoding::Hex, "0g", 1),
        (Encoding::Hex, "00zz", 2),
        (Encoding::Base64, "Z", 1),
        (Encoding::Base64, "Zg=", 3),
        (Encoding::Base64, "Z===", 1),
        (Encoding::Base64, "Zm9*", 3),
        (Encoding::Base64, "Zh==", 2),
    ];
    for (encoding, text, offset) in wrong {
        assert_eq!(decoded(encoding, text).unwrap_err().offset, offset, "{encoding:?} {text}");
    }
}
