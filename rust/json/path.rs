//! Paths to values, as in `$.items[3]["odd key"]`: for the person who must find the value, so always one printable
//! line, and short enough to stand in an error message.

use std::fmt::Write;

/// Longer keys are cut here, in characters. 128 levels of such keys still make a message of a few kilobytes.
const KEY_SHOWN: usize = 64;

/// Appends `.key`, or `["key"]` when the key is not an ASCII identifier.
pub(crate) fn push_key(path: &mut String, key: &str) {
    let identifier = !key.is_empty()
        && key.len() <= KEY_SHOWN
        && !key.starts_with(|first: char| first.is_ascii_digit())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if identifier {
        path.push('.');
        path.push_str(key);
    } else {
        path.push('[');
        push_quoted(path, key);
        path.push(']');
    }
}

/// Appends `[3]`.
pub(crate) fn push_index(path: &mut String, index: usize) {
    let _ = write!(path, "[{index}]");
}

/// Appends the text in quotes, cut after [`KEY_SHOWN`] characters, with everything that has no visible shape of its
/// own written as `\u00xx`.
pub(crate) fn push_quoted(path: &mut String, text: &str) {
    path.push('"');
    for (count, character) in text.chars().enumerate() {
        if count == KEY_SHOWN {
            path.push('…');
            break;
        }
        match character {
            '"' => path.push_str("\\\""),
            '\\' => path.push_str("\\\\"),
            _ if invisible(character) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(path, "\\u{unit:04x}");
                }
            }
            _ => path.push(character),
        }
    }
    path.push('"');
}

/// Whether the character is a control, a line break or a formatting mark that would disturb or hide in a line: a
/// fixed list rather than Unicode's tables, so that every version of every language agrees on it.
fn invisible(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
