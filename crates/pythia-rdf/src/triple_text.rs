//! Text form of triple terms: N-Triples with exactly one form per term, which is read back exactly.
//!
//! The form is `<<( <s> <p> <o> )>>` with single spaces. Unlike a parser for files, the reader here accepts every
//! term that was written, valid or not, because a key must decode to the term from which it was made.

use oxrdf::{
    BlankNode, Literal, LiteralRef, NamedNode, NamedOrBlankNode, NamedOrBlankNodeRef, Term,
    TermRef, Triple, TripleRef,
};

use crate::key::split_direction;

/// Maximum nesting depth of triple terms. Terms are dropped and compared by recursion, so this limits the stack
/// use.
pub(crate) const NESTING_MAX: usize = 128;

type Problem = (&'static str, usize);

/// Appends the text of a triple term. `scope` is put before every blank node label.
pub(crate) fn write_triple(triple: TripleRef<'_>, scope: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<<( ");
    match triple.subject {
        NamedOrBlankNodeRef::NamedNode(node) => write_iri(node.as_str(), out),
        NamedOrBlankNodeRef::BlankNode(node) => write_blank(node.as_str(), scope, out),
    }
    out.push(b' ');
    write_iri(triple.predicate.as_str(), out);
    out.push(b' ');
    match triple.object {
        TermRef::NamedNode(node) => write_iri(node.as_str(), out),
        TermRef::BlankNode(node) => write_blank(node.as_str(), scope, out),
        TermRef::Literal(literal) => write_literal(literal, out),
        TermRef::Triple(inner) => write_triple(inner.as_ref(), scope, out),
    }
    out.extend_from_slice(b" )>>");
}

fn write_blank(label: &str, scope: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"_:");
    out.extend_from_slice(scope.as_bytes());
    out.extend_from_slice(label.as_bytes());
}

fn write_iri(iri: &str, out: &mut Vec<u8>) {
    out.push(b'<');
    write_escaped(iri, b">\\", out);
    out.push(b'>');
}

fn write_literal(literal: LiteralRef<'_>, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(literal.value(), b"\"\\", out);
    out.push(b'"');
    if let Some(language) = literal.language() {
        out.push(b'@');
        out.extend_from_slice(language.as_bytes());
        if let Some(direction) = literal.direction() {
            out.extend_from_slice(b"--");
            out.extend_from_slice(direction.to_string().as_bytes());
        }
    } else if literal.datatype() != oxrdf::vocab::xsd::STRING {
        out.extend_from_slice(b"^^");
        write_iri(literal.datatype().as_str(), out);
    }
}

/// Writes a text with control characters and `special` characters as `\uXXXX`.
fn write_escaped(text: &str, special: &[u8], out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        if byte < 0x20 || byte == 0x7f || special.contains(&byte) {
            out.extend_from_slice(format!("\\u{byte:04X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
}

/// Reads the text of a triple term. An error names what was expected and at which byte.
pub(crate) fn read_triple(text: &str) -> Result<Term, Problem> {
    let mut reader = Reader { text, at: 0 };
    let triple = reader.triple(0)?;
    if reader.at != text.len() {
        return Err(("text after the triple term", reader.at));
    }
    Ok(triple.into())
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn expect(&mut self, token: &'static str) -> Result<(), Problem> {
        if self.rest().starts_with(token) {
            self.at += token.len();
            Ok(())
        } else {
            Err((token, self.at))
        }
    }

    fn triple(&mut self, depth: usize) -> Result<Triple, Problem> {
        if depth >= NESTING_MAX {
            return Err(("less nesting", self.at));
        }
        self.expect("<<( ")?;
        let subject: NamedOrBlankNode = if self.rest().starts_with('<') {
            self.iri()?.into()
        } else {
            self.blank()?.into()
        };
        self.expect(" ")?;
        let predicate = self.iri()?;
        self.expect(" ")?;
        let rest = self.rest();
        let object: Term = if rest.starts_with("<<( ") {
            self.triple(depth + 1)?.into()
        } else if rest.starts_with('<') {
            self.iri()?.into()
        } else if rest.starts_with('"') {
            self.literal()?.into()
        } else {
            self.blank()?.into()
        };
        self.expect(" )>>")?;
        Ok(Triple {
            subject,
            predicate,
            object,
        })
    }

    fn blank(&mut self) -> Result<BlankNode, Problem> {
        self.expect("_:")?;
        Ok(BlankNode::new_unchecked(self.until(' ')?))
    }

    fn iri(&mut self) -> Result<NamedNode, Problem> {
        self.expect("<")?;
        let iri = self.escaped('>')?;
        Ok(NamedNode::new_unchecked(iri))
    }

    fn literal(&mut self) -> Result<Literal, Problem> {
        self.expect("\"")?;
        let value = self.escaped('"')?;
        if self.rest().starts_with('@') {
            self.at += 1;
            let (language, direction) = split_direction(self.until(' ')?);
            return Ok(match direction {
                None => Literal::new_language_tagged_literal_unchecked(value, language),
                Some(direction) => Literal::new_directional_language_tagged_literal_unchecked(
                    value, language, direction,
                ),
            });
        }
        if self.rest().starts_with("^^") {
            self.at += 2;
            return Ok(Literal::new_typed_literal(value, self.iri()?));
        }
        Ok(Literal::new_simple_literal(value))
    }

    fn until(&mut self, end: char) -> Result<&'a str, Problem> {
        let length = self
            .rest()
            .find(end)
            .ok_or(("the end of the term", self.text.len()))?;
        let found = &self.rest()[..length];
        self.at += length;
        Ok(found)
    }

    /// Reads the text up to `end` and consumes `end`. Escapes are resolved.
    fn escaped(&mut self, end: char) -> Result<String, Problem> {
        let mut value = String::new();
        loop {
            let rest = self.rest();
            let length = rest
                .find([end, '\\'])
                .ok_or(("the end of the term", self.text.len()))?;
            value.push_str(&rest[..length]);
            self.at += length;
            if rest[length..].starts_with(end) {
                self.at += 1;
                return Ok(value);
            }
            let digits = rest
                .get(length + 2..length + 6)
                .filter(|_| rest[length..].starts_with("\\u"));
            let character = digits
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .and_then(char::from_u32)
                .ok_or(("an escape of four digits", self.at))?;
            value.push(character);
            self.at += 6;
        }
    }
}
