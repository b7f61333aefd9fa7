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

/// What begins like this type needs a brand of it as well.
const MP4: &str = "video/mp4";

/// First bytes, and what they say. A `?` stands for any byte.
const SIGNATURES: [(&[u8], &str); 32] = [
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
    (b"????ftyp", MP4),
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
    let mut signatures = SIGNATURES.iter();
    if let Some((_, kind)) = signatures.find(|(signature, kind)| begins(signature) && (*kind != MP4 || is_mp4(&head))) {
        return kind;
    }
    let is_binary = |b: &u8| matches!(b, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    if text.iter().any(is_binary) {
        "application/octet-stream"
    } else {
        "text/plain; charset=utf-8"
    }
}

/// Whether the first box, which has to end within what counts, names a brand that starts with `mp4`. The version of the
/// first brand, from byte 12 on, is none.
fn is_mp4(head: &[u8]) -> bool {
    let size = head.first_chunk().map(|size| u32::from_be_bytes(*size));
    let Some(first_box) = size
        .filter(|size| size % 4 == 0)
        .and_then(|size| head.get(..usize::try_from(size).ok()?))
    else {
        return false;
    };
    let mut words = first_box.chunks(4).enumerate().skip(2);
    words.any(|(number, word)| number != 3 && word.starts_with(b"mp4"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_content() {
        let table: [(&[u8], &str); 13] = [
            (b"a: 1\n", "application/octet-stream"),
            (&[b'a'; 600], "text/plain; charset=utf-8"),
            (b" \n<html>", "text/html; charset=utf-8"),
            (b"<htmlx>", "application/octet-stream"),
            (b"\x1f\x8b\x08", "application/x-gzip"),
            (b"\0\0\0\x0cftypmp42", "video/mp4"),
            (b"\0\0\0\x14ftypisom\0\0\0\0mp41", "video/mp4"),
            (b"\0\0\0\x10ftypisommp41", "application/octet-stream"),
            (b"\0\0\0\x10ftypisom\0\0\0\0mp41", "application/octet-stream"),
            (b"\0\0\0\x0dftypmp42", "application/octet-stream"),
            (b"\0\0\x02\x04ftypmp42", "application/octet-stream"),
            (b"\0\0\x01\0ftypmp42", "image/x-icon"),
            (b"", "application/octet-stream"),
        ];
        for (data, want) in table {
            assert_eq!(content_type(data), want);
        }
    }
}
