//! What kind of content a file has, by its first bytes. Helm names it when a chart's file isn't an archive.
//! Facts: Go's `net/http.DetectContentType`.

/// How many bytes of a file count. Helm fills what a shorter file lacks with zeros, so that no short text is a text.
const SNIFFED: usize = 512;

/// Tags that begin HTML; a blank or `>` follows them.
const HTML: [&str; 17] = [
    "<!DOCTYPE HTML",
    "<HTML",
    "<HEAD",
    "<SCRIPT",
    "<IFRAME",
    "<H1",
    "<DIV",
    "<FONT",
    "<TABLE",
    "<A",
    "<STYLE",
    "<TITLE",
    "<B",
    "<BODY",
    "<BR",
    "<P",
    "<!--",
];

/// First bytes, and what they say. A `?` stands for any byte.
const SIGNATURES: [(&[u8], &str); 34] = [
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\xfe\xff", "text/plain; charset=utf-16be"),
    (b"\xff\xfe", "text/plain; charset=utf-16le"),
    (b"\xef\xbb\xbf", "text/plain; charset=utf-8"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"\x00\x00\x02\x00", "image/x-icon"),
    (b"BM", "image/bmp"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"RIFF????WEBPVP", "image/webp"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"FORM????AIFF", "audio/aiff"),
    (b"ID3", "audio/mpeg"),
    (b"OggS\x00", "application/ogg"),
    (b"MThd\x00\x00\x00\x06", "audio/midi"),
    (b"RIFF????AVI ", "video/avi"),
    (b"RIFF????WAVE", "audio/wave"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"??????????????????????????????????LP", "application/vnd.ms-fontobject"),
    (b"\x00\x01\x00\x00", "font/ttf"),
    (b"OTTO", "font/otf"),
    (b"ttcf", "font/collection"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\x1f\x8b\x08", "application/x-gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07\x00", "application/x-rar-compressed"),
    (b"Rar!\x1a\x07\x01\x00", "application/x-rar-compressed"),
    (b"\x00asm", "application/wasm"),
    (b"????ftypmp4", "video/mp4"),
    (b"????ftyp????mp4", "video/mp4"),
    (b"????ftyp????????mp4", "video/mp4"),
];

/// The content's type.
pub(super) fn content_type(data: &[u8]) -> &'static str {
    let mut head = data.get(..SNIFFED.min(data.len())).unwrap_or(data).to_vec();
    head.resize(SNIFFED, 0);
    let blanks = head.iter().take_while(|b| b"\t\n\x0c\r ".contains(b)).count();
    let text = head.get(blanks..).unwrap_or_default();
    let is_tag = |tag: &str| {
        let (Some(start), Some(end)) = (text.get(..tag.len()), text.get(tag.len())) else {
            return false;
        };
        start.eq_ignore_ascii_case(tag.as_bytes()) && matches!(end, b' ' | b'>')
    };
    if HTML.iter().any(|tag| is_tag(tag)) {
        return "text/html; charset=utf-8";
    }
    if text.starts_with(b"<?xml") {
        return "text/xml; charset=utf-8";
    }
    let begins = |signature: &[u8]| {
        head.iter()
            .zip(signature)
            .all(|(byte, wanted)| *wanted == b'?' || byte == wanted)
    };
    if let Some((_, kind)) = SIGNATURES.iter().find(|(signature, _)| begins(signature)) {
        return kind;
    }
    let is_binary = |b: &u8| matches!(b, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if text.iter().any(is_binary) {
        "application/octet-stream"
    } else {
        "text/plain; charset=utf-8"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_content() {
        let table: [(&[u8], &str); 7] = [
            (b"a: 1\n", "application/octet-stream"),
            (&[b'a'; 600], "text/plain; charset=utf-8"),
            (b" \n<html>", "text/html; charset=utf-8"),
            (b"<htmlx>", "application/octet-stream"),
            (b"\x1f\x8b\x08", "application/x-gzip"),
            (b"????ftypmp42", "video/mp4"),
            (b"", "application/octet-stream"),
        ];
        for (data, want) in table {
            assert_eq!(content_type(data), want);
        }
    }
}
