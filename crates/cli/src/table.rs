//! Tables and numbers for people: aligned columns, grouped digits, binary units.

/// A table with a header, first column to the left and the others to the right.
pub(crate) fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let cell_width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = header.iter().map(|name| cell_width(name)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell_width(cell));
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::from(" ");
        for (column, (cell, &width)) in cells.zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell_width(cell));
            if column == 0 {
                text.push_str(&format!(" {cell}{padding}"));
            } else {
                text.push_str(&format!("  {padding}{cell}"));
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    };
    let mut table = String::new();
    if header.iter().any(|name| !name.is_empty()) {
        table.push_str(&line(&mut header.iter().copied()));
    }
    for row in rows {
        table.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    table
}

/// A count with its digits in groups of three.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in the binary unit that suits it.
pub(crate) fn bytes(size: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if size < 1024 {
        return format!("{size} B");
    }
    let mut scaled = size as f64 / 1024.0;
    let mut unit = 0;
    // Just below the next unit would print as 1024.0 of this one.
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// Text for a terminal, with control characters as escapes: a name or a property that was stored
/// must not move the cursor or change colours.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let counts = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in counts {
            assert_eq!(count(number), text);
        }
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (64 << 20, "64.0 MiB"),
        ];
        for (size, text) in sizes {
            assert_eq!(bytes(size), text);
        }
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(printable("a\u{1b}[31m\r\u{9b}b\\ ü"), "a\\u{1b}[31m\\r\\u{9b}b\\ ü");
    }

    #[test]
    fn columns_are_aligned() {
        let rows =
            [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "100".to_owned()]];
        let expected = "  name    n\n  a       1\n  long  100\n";
        assert_eq!(render(&["name", "n"], &rows), expected);
    }
}
