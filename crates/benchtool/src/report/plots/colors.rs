//! Colours of plots, each with a role, and the style sheet that gives every role its dark form.
//!
//! Plots are drawn in the light colours. In a dark surrounding the style sheet replaces them by
//! attribute (`[fill="#0072B2"]`), so one drawing serves both, also as a file of its own. The
//! colours of engines are told apart by colour-blind readers (after Okabe and Ito); no meaning is
//! carried by colour alone.

use plotters::style::RGBColor;

/// A role: light colour and dark colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    light: (u8, u8, u8),
    dark: (u8, u8, u8),
}

const fn role(light: u32, dark: u32) -> Role {
    const fn split(color: u32) -> (u8, u8, u8) {
        ((color >> 16) as u8, (color >> 8) as u8, color as u8)
    }
    Role { light: split(light), dark: split(dark) }
}

/// Text.
pub(crate) const INK: Role = role(0x1F_23_28, 0xE6_ED_F3);
/// Less important text.
pub(crate) const MUTED: Role = role(0x59_63_6E, 0x9D_A7_B3);
/// Lines of the grid.
pub(crate) const GRID: Role = role(0xD9_DE_E3, 0x33_3A_42);
/// Better than the peer.
pub(crate) const WIN: Role = role(0x1A_7F_37, 0x3F_B9_50);
/// As good as the peer.
pub(crate) const TIE: Role = role(0x7D_85_90, 0x8B_94_9E);
/// Worse than the peer.
pub(crate) const LOSS: Role = role(0xCF_22_2E, 0xFF_6B_6B);
/// Engines in the order in which they get their colours.
const SERIES: [Role; 8] = [
    role(0x00_72_B2, 0x4A_A8_E8),
    role(0xE6_9F_00, 0xF0_B4_29),
    role(0x00_9E_73, 0x2B_C7_9A),
    role(0xCC_79_A7, 0xE2_9B_C4),
    role(0x8C_6B_B1, 0xB7_9A_D6),
    role(0x56_B4_E9, 0x8F_D0_F5),
    role(0xA6_76_1D, 0xD0_A2_4C),
    role(0x7F_7F_7F, 0xA6_A6_A6),
];
/// Engines that always have the same colour.
const KNOWN: [&str; 6] = ["tidesdb", "rocksdb", "lmdb", "fjall", "rocksdb-tuned", "redb"];

impl Role {
    /// The colour to draw with.
    pub(crate) fn color(self) -> RGBColor {
        RGBColor(self.light.0, self.light.1, self.light.2)
    }
}

/// The colour of an engine or of the n-th series.
pub(crate) fn of_series(name: &str, index: usize) -> Role {
    let known = KNOWN.iter().position(|known| *known == name);
    SERIES[known.unwrap_or(KNOWN.len() + index) % SERIES.len()]
}

fn hex(color: (u8, u8, u8)) -> String {
    format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2)
}

/// Rules that give drawings below `scope` their dark colours.
pub(crate) fn dark_rules(scope: &str) -> String {
    let roles = [INK, MUTED, GRID, WIN, TIE, LOSS];
    let mut rules = String::new();
    for role in roles.iter().chain(&SERIES) {
        let (light, dark) = (hex(role.light), hex(role.dark));
        rules.push_str(&format!(
            "{scope}[fill=\"{light}\"]{{fill:{dark}}}{scope}[stroke=\"{light}\"]{{stroke:{dark}}}"
        ));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_role_has_its_own_light_color() {
        let roles = [INK, MUTED, GRID, WIN, TIE, LOSS];
        let all: Vec<Role> = roles.into_iter().chain(SERIES).collect();
        let distinct: BTreeSet<_> = all.iter().map(|role| role.light).collect();
        assert_eq!(distinct.len(), all.len(), "the dark form is chosen by the light one");
        assert!(dark_rules("svg ").contains("svg [fill=\"#0072B2\"]{fill:#4AA8E8}"));
    }

    #[test]
    fn engines_keep_their_colors() {
        assert_eq!(of_series("rocksdb", 0), of_series("rocksdb", 5));
        assert_ne!(of_series("rocksdb", 0), of_series("tidesdb", 0));
    }
}
