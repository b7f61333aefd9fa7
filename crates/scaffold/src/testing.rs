//! An HTTP server for the tests of this crate and of the program.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Starts an HTTP server on the loopback interface and returns its address. It answers the given paths, `/echo` with the request's
/// head, and any other path with 404.
pub fn serve(pages: &'static [(&'static str, &'static str, &'static str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let path = head[0].split(' ').nth(1).unwrap_or_default();
            let page = pages.iter().find(|(known, ..)| *known == path);
            let (_, status, body) = page.copied().unwrap_or(("", "404 Not Found", "no"));
            let body = if path == "/echo" {
                head.join("\n")
            } else {
                body.to_owned()
            };
            let size = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}
