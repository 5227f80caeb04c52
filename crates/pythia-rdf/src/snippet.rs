//! The line of an error, for people.

/// Returns a line of a text, with a caret under the column. Both count from 1; columns are characters.
///
/// `None` if the text has fewer lines.
pub fn snippet(text: &str, line: usize, column: usize) -> Option<String> {
    let source = text.split('\n').nth(line - 1)?;
    Some(snippet_of_line(source, line, column))
}

/// Returns this line, which has this number in its text, with a caret under the column.
pub fn snippet_of_line(source: &str, line: usize, column: usize) -> String {
    /// Characters shown before and after the position.
    const BEFORE: usize = 60;
    const AFTER: usize = 40;
    let from = (column - 1).saturating_sub(BEFORE);
    let window: String = source
        .chars()
        .skip(from)
        .take(column + AFTER - from)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let number = line.to_string();
    let (margin, caret) = (" ".repeat(number.len()), " ".repeat(column - 1 - from));
    format!("{number} | {}\n{margin} | {caret}^", window.trim_end())
}
