//! Directives, tags, and the names of anchors.

use super::Error;
use super::scanner::Scanner;
use super::token::{Kind, Payload, Tag};

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
}

fn is_uri(b: u8) -> bool {
    is_name(b) || b";/?:@&=+$,.!~*'()[]%".contains(&b)
}

impl<'a> Scanner<'a> {
    fn skip_name(&mut self) -> &'a str {
        let start = self.at;
        while is_name(self.byte(0)) {
            self.skip_ascii(1);
        }
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// `%YAML 1.1` or `%TAG !handle! prefix`, with the line break behind it.
    pub(super) fn scan_directive(&mut self) -> Result<(Kind, Payload<'a>), Error> {
        self.skip();
        let name = self.skip_name();
        if name.is_empty() {
            return Err(self.error("could not find expected directive name"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error("found unexpected non-alphabetical character"));
        }
        let directive = match name {
            "YAML" => {
                self.skip_blanks();
                let major = self.scan_version_number()?;
                if self.byte(0) != b'.' {
                    return Err(self.error("did not find expected digit or '.' character"));
                }
                self.skip();
                let minor = self.scan_version_number()?;
                (Kind::VersionDirective, Payload::Version { major, minor })
            }
            "TAG" => {
                self.skip_blanks();
                let handle = self.scan_tag_handle(true)?;
                if !self.is_blank(0) {
                    return Err(self.error("did not find expected whitespace"));
                }
                self.skip_blanks();
                let suffix = self.scan_tag_uri(None)?;
                if !self.is_blank_or_end(0) {
                    return Err(self.error("did not find expected whitespace or line break"));
                }
                (Kind::TagDirective, Payload::Tag(Box::new(Tag { handle, suffix })))
            }
            _ => return Err(self.error("found unknown directive name")),
        };
        self.skip_blanks();
        if self.byte(0) == b'#' {
            self.skip_to_break();
        }
        if !self.is_break_or_end(0) {
            return Err(self.error("did not find expected comment or line break"));
        }
        self.skip_break();
        Ok(directive)
    }

    fn scan_version_number(&mut self) -> Result<u8, Error> {
        let mut value = 0;
        let mut length = 0;
        while self.byte(0).is_ascii_digit() {
            length += 1;
            if length > 2 {
                return Err(self.error("found extremely long version number"));
            }
            value = value * 10 + (self.byte(0) - b'0');
            self.skip_ascii(1);
        }
        if length == 0 {
            return Err(self.error("did not find expected version number"));
        }
        Ok(value)
    }

    /// The name behind `&` or `*`.
    pub(super) fn scan_name(&mut self) -> Result<&'a str, Error> {
        self.skip();
        let name = self.skip_name();
        let ends = self.is_blank_or_end(0) || b"?:,]}%@`".contains(&self.byte(0));
        if name.is_empty() || !ends {
            return Err(self.error("did not find expected alphabetic or numeric character"));
        }
        Ok(name)
    }

    /// `!<uri>`, `!suffix`, `!handle!suffix` or `!`.
    pub(super) fn scan_tag(&mut self) -> Result<Payload<'a>, Error> {
        let tag = if self.byte(1) == b'<' {
            self.skip_ascii(2);
            let suffix = self.scan_tag_uri(None)?;
            if self.byte(0) != b'>' {
                return Err(self.error("did not find the expected '>'"));
            }
            self.skip();
            Tag {
                handle: Vec::new(),
                suffix,
            }
        } else {
            let handle = self.scan_tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with(b"!") {
                let suffix = self.scan_tag_uri(None)?;
                Tag { handle, suffix }
            } else {
                let suffix = self.scan_tag_uri(Some(&handle))?;
                match suffix.is_empty() {
                    true => Tag {
                        handle: suffix,
                        suffix: handle,
                    },
                    false => Tag {
                        handle: vec![b'!'],
                        suffix,
                    },
                }
            }
        };
        if !self.is_blank_or_end(0) {
            return Err(self.error("did not find expected whitespace or line break"));
        }
        Ok(Payload::Tag(Box::new(tag)))
    }

    fn scan_tag_handle(&mut self, directive: bool) -> Result<Vec<u8>, Error> {
        if self.byte(0) != b'!' {
            return Err(self.error("did not find expected '!'"));
        }
        self.skip();
        let mut handle = vec![b'!'];
        handle.extend_from_slice(self.skip_name().as_bytes());
        if self.byte(0) == b'!' {
            self.skip();
            handle.push(b'!');
        } else if directive && handle != b"!" {
            return Err(self.error("did not find expected '!'"));
        }
        Ok(handle)
    }

    /// A URI with its escapes decoded. `head` is what was taken for a handle and belongs to it, but for its `!`.
    fn scan_tag_uri(&mut self, head: Option<&[u8]>) -> Result<Vec<u8>, Error> {
        let mut uri = head.and_then(|head| head.get(1..)).unwrap_or_default().to_vec();
        let mut found = head.is_some();
        while is_uri(self.byte(0)) {
            if self.byte(0) == b'%' {
                self.scan_uri_escapes(&mut uri)?;
            } else {
                uri.push(self.byte(0));
                self.skip_ascii(1);
            }
            found = true;
        }
        if !found {
            return Err(self.error("did not find expected tag URI"));
        }
        Ok(uri)
    }

    /// The escapes of one character.
    fn scan_uri_escapes(&mut self, uri: &mut Vec<u8>) -> Result<(), Error> {
        let mut left = None;
        while left != Some(0) {
            let digit = |b: u8| char::from(b).to_digit(16);
            let octet = match (self.byte(0), digit(self.byte(1)), digit(self.byte(2))) {
                (b'%', Some(high), Some(low)) => (high << 4 | low) as u8,
                _ => return Err(self.error("did not find URI escaped octet")),
            };
            left = Some(match left {
                None => match octet {
                    0..=0x7F => 0,
                    0xC0..=0xDF => 1,
                    0xE0..=0xEF => 2,
                    0xF0..=0xF7 => 3,
                    _ => return Err(self.error("found an incorrect leading UTF-8 octet")),
                },
                Some(_) if octet & 0xC0 != 0x80 => {
                    return Err(self.error("found an incorrect trailing UTF-8 octet"));
                }
                Some(left) => left - 1,
            });
            uri.push(octet);
            self.skip_ascii(3);
        }
        Ok(())
    }
}
