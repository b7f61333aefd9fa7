//! What is drawn at random and known to break something is left out until the point of issue 18 that cures it is: who
//! cures one takes it off this list. `POINTS=4,7` or `POINTS=all` brings it in before.

/// The points, and what each lets in.
const OPEN: [(&str, &str); 3] = [
    ("0", "deletions that take a moment, in which a finalizer may come"),
    ("3", "a reconcile-period of a nanosecond"),
    (
        "4",
        "ApplySet annotations and statuses that name hundreds of namespaces",
    ),
];

pub fn is_cured(point: &str) -> bool {
    let asked = std::env::var("POINTS").unwrap_or_default();
    let is_asked = || asked == "all" || asked.split(',').any(|asked| asked == point);
    !OPEN.iter().any(|(open, _)| *open == point) || is_asked()
}
