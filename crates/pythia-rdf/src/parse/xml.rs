//! Limits on the cost of parsing an XML text: the depth of its elements and the size of its entities.
//!
//! The RDF/XML parser searches all open elements at each new element. It replaces entities when they are defined,
//! so entities that contain entities can grow exponentially. This scanner follows the markup, computes the length
//! of each entity, and refuses text before the parser receives it. It also finds base IRIs.

mod bases;

use std::collections::HashMap;
use std::sync::Arc;

use memchr::memchr2;

use self::bases::XmlBases;
use super::editor::{Editor, Position};
use super::watch::{Refusal, Watch};

/// Maximum nesting depth of elements.
const ELEMENTS_MAX: usize = 1024;
/// Maximum length of a document type declaration, and maximum total length of its expanded entities.
const DOCTYPE_BYTES_MAX: usize = 1 << 20;
/// Maximum length of an entity's name. References with longer names are ignored.
const NAME_BYTES_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum XmlMode {
    Text,
    /// Directly after `<`.
    Opened,
    StartTag {
        quote: Option<u8>,
        slash: bool,
    },
    EndTag,
    /// After `<!`, before it is clear what is declared.
    Declaration,
    /// Until `byte` was seen `needed` times directly before `>`: `--`, `]]` or `?`.
    Until {
        byte: u8,
        needed: u8,
        count: u8,
    },
    Doctype {
        open: usize,
    },
}

/// XmlMode of the watch over an XML text.
pub(crate) struct XmlWatch {
    mode: XmlMode,
    depth: usize,
    /// Beginning of a declaration, or a whole document type declaration.
    declaration: Vec<u8>,
    /// The entity reference that is being read.
    reference: Option<Vec<u8>>,
    /// Length of each entity after expansion.
    entities: HashMap<Vec<u8>, usize>,
    position: Arc<Position>,
    bases: XmlBases,
}

impl Watch for XmlWatch {
    fn pass(&mut self, piece: &[u8], editor: &mut Editor) -> Result<(), Refusal> {
        let mut offset = 0;
        while offset < piece.len() {
            if self.mode == XmlMode::Text && self.reference.is_none() {
                let rest = &piece[offset..];
                offset += memchr2(b'<', b'&', rest).unwrap_or(rest.len());
            }
            let Some(&byte) = piece.get(offset) else {
                break;
            };
            let before = self.mode;
            self.next(byte).map_err(|mut refusal| {
                refusal.offset = offset;
                refusal
            })?;
            if before != XmlMode::Text {
                let modes = (before, self.mode);
                self.bases.follow(modes, self.depth, piece, offset, editor);
            }
            offset += 1;
        }
        Ok(())
    }
}

impl XmlWatch {
    pub(crate) fn new(position: Arc<Position>) -> Self {
        Self {
            mode: XmlMode::Text,
            depth: 0,
            declaration: Vec::new(),
            reference: None,
            entities: HashMap::new(),
            position,
            bases: XmlBases::new(),
        }
    }

    fn next(&mut self, byte: u8) -> Result<(), Refusal> {
        self.mode = match self.mode {
            XmlMode::Text => {
                self.text(byte)?;
                if byte == b'<' {
                    XmlMode::Opened
                } else {
                    XmlMode::Text
                }
            }
            XmlMode::Opened => {
                self.reference = None;
                match byte {
                    b'!' => {
                        self.declaration.clear();
                        XmlMode::Declaration
                    }
                    b'?' => until(b'?', 1),
                    b'/' => XmlMode::EndTag,
                    b'>' => XmlMode::Text,
                    _ => XmlMode::StartTag {
                        quote: None,
                        slash: false,
                    },
                }
            }
            XmlMode::StartTag { quote, slash } => self.start_tag(byte, quote, slash)?,
            XmlMode::EndTag if byte == b'>' => {
                self.depth = self.depth.saturating_sub(1);
                XmlMode::Text
            }
            XmlMode::EndTag => XmlMode::EndTag,
            XmlMode::Declaration => self.declaration(byte),
            XmlMode::Until {
                byte: end,
                needed,
                count,
            } => match byte {
                b'>' if count >= needed => XmlMode::Text,
                _ if byte == end => XmlMode::Until {
                    byte: end,
                    needed,
                    count: (count + 1).min(needed),
                },
                _ => until(end, needed),
            },
            XmlMode::Doctype { open } => self.doctype(byte, open)?,
        };
        Ok(())
    }

    /// Follows the references in text and in attribute values.
    fn text(&mut self, byte: u8) -> Result<(), Refusal> {
        match (&mut self.reference, byte) {
            (_, b'&') => self.reference = Some(Vec::new()),
            (None, _) => {}
            (Some(name), b';') => {
                let length = self.entities.get(name).copied().unwrap_or(0);
                self.reference = None;
                self.position.add_pending(length as u64)?;
            }
            (Some(name), _) if name.len() < NAME_BYTES_MAX => name.push(byte),
            (Some(_), _) => self.reference = None,
        }
        Ok(())
    }

    fn start_tag(&mut self, byte: u8, quote: Option<u8>, slash: bool) -> Result<XmlMode, Refusal> {
        if let Some(open) = quote {
            self.text(byte)?;
            let quote = (byte != open).then_some(open);
            return Ok(XmlMode::StartTag {
                quote,
                slash: false,
            });
        }
        match byte {
            b'>' if slash => Ok(XmlMode::Text),
            b'>' => {
                self.depth += 1;
                if self.depth > ELEMENTS_MAX {
                    return Err(refusal(format!("elements nest deeper than {ELEMENTS_MAX}")));
                }
                Ok(XmlMode::Text)
            }
            b'"' | b'\'' => Ok(XmlMode::StartTag {
                quote: Some(byte),
                slash: false,
            }),
            _ => Ok(XmlMode::StartTag {
                quote: None,
                slash: byte == b'/',
            }),
        }
    }

    fn declaration(&mut self, byte: u8) -> XmlMode {
        self.declaration.push(byte);
        match self.declaration.as_slice() {
            b"--" => until(b'-', 2),
            [b'[', ..] => until(b']', 2),
            [b'-'] => XmlMode::Declaration,
            _ => XmlMode::Doctype { open: 0 },
        }
    }

    fn doctype(&mut self, byte: u8, open: usize) -> Result<XmlMode, Refusal> {
        self.declaration.push(byte);
        if self.declaration.len() > DOCTYPE_BYTES_MAX {
            return Err(refusal(format!(
                "a document type declaration longer than {DOCTYPE_BYTES_MAX} bytes"
            )));
        }
        Ok(match (byte, open) {
            (b'<', _) => XmlMode::Doctype { open: open + 1 },
            (b'>', 0) => {
                self.define_entities()?;
                XmlMode::Text
            }
            (b'>', _) => XmlMode::Doctype { open: open - 1 },
            _ => XmlMode::Doctype { open },
        })
    }

    /// Computes the length of the entities in a document type declaration.
    fn define_entities(&mut self) -> Result<(), Refusal> {
        let declaration = std::mem::take(&mut self.declaration);
        for part in declaration.split(|byte| *byte == b'<') {
            let Some(definition) = part.strip_prefix(b"!ENTITY") else {
                continue;
            };
            let definition = definition.trim_ascii_start();
            let definition = definition.strip_prefix(b"%").unwrap_or(definition);
            let mut pieces = definition
                .trim_ascii_start()
                .splitn(2, u8::is_ascii_whitespace);
            let (Some(name), Some(rest)) = (pieces.next(), pieces.next()) else {
                continue;
            };
            let mut quoted = rest.splitn(3, |byte| matches!(byte, b'"' | b'\''));
            let Some(value) = quoted.nth(1) else { continue };
            let length = self.expanded_length(value);
            self.entities.insert(name.to_vec(), length);
            let total: usize = self.entities.values().sum();
            if total > DOCTYPE_BYTES_MAX {
                return Err(refusal(format!(
                    "entities longer than {DOCTYPE_BYTES_MAX} bytes when written out"
                )));
            }
        }
        Ok(())
    }

    /// Returns the length of a text after its entities are expanded. Unknown entities are counted as written.
    fn expanded_length(&self, text: &[u8]) -> usize {
        let mut length = text.len();
        for reference in text.split(|byte| *byte == b'&').skip(1) {
            let name = reference
                .split(|byte| *byte == b';')
                .next()
                .unwrap_or_default();
            length = length.saturating_add(self.entities.get(name).copied().unwrap_or(0));
        }
        length
    }
}

fn until(byte: u8, needed: u8) -> XmlMode {
    XmlMode::Until {
        byte,
        needed,
        count: 0,
    }
}

fn refusal(message: String) -> Refusal {
    Refusal { offset: 0, message }
}
