//! Classes of characters in regular expressions, as Go 1.26's `regexp/syntax` and its Unicode 15.0 know them, in the
//! syntax of the `regex` crate, which has Unicode 16.0.

/// What matches nothing.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";
/// The inside of a class of all characters.
const EVERYTHING: &str = r"\x{0}-\x{10FFFF}";

/// Letters that a later Unicode than Go's gave another case, with the ones that it paired them with.
#[rustfmt::skip]
const NEWLY_PAIRED: &[(u32, u32)] = &[
    (0x19B, 0x19B), (0x264, 0x264), (0x390, 0x390), (0x3B0, 0x3B0), (0x1C89, 0x1C8A), (0x1FD3, 0x1FD3),
    (0x1FE3, 0x1FE3), (0xA7CB, 0xA7CD), (0xA7DA, 0xA7DC), (0xFB05, 0xFB06), (0x10D50, 0x10D65), (0x10D70, 0x10D85),
];

/// The general categories, canonically named.
#[rustfmt::skip]
const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl",
    "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// Long names of categories (`unicode.CategoryAliases`), canonical. `LC`, whose own name isn't, is among them.
#[rustfmt::skip]
const ALIASES: &[(&str, &str)] = &[
    ("Casedletter", "LC"), ("Closepunctuation", "Pe"), ("Cntrl", "Cc"), ("Combiningmark", "M"),
    ("Connectorpunctuation", "Pc"), ("Control", "Cc"), ("Currencysymbol", "Sc"), ("Dashpunctuation", "Pd"),
    ("Decimalnumber", "Nd"), ("Digit", "Nd"), ("Enclosingmark", "Me"), ("Finalpunctuation", "Pf"),
    ("Format", "Cf"), ("Initialpunctuation", "Pi"), ("Lc", "LC"), ("Letter", "L"),
    ("Letternumber", "Nl"), ("Lineseparator", "Zl"), ("Lowercaseletter", "Ll"), ("Mark", "M"),
    ("Mathsymbol", "Sm"), ("Modifierletter", "Lm"), ("Modifiersymbol", "Sk"), ("Nonspacingmark", "Mn"),
    ("Number", "N"), ("Openpunctuation", "Ps"), ("Other", "C"), ("Otherletter", "Lo"),
    ("Othernumber", "No"), ("Otherpunctuation", "Po"), ("Othersymbol", "So"), ("Paragraphseparator", "Zp"),
    ("Privateuse", "Co"), ("Punct", "P"), ("Punctuation", "P"), ("Separator", "Z"),
    ("Spaceseparator", "Zs"), ("Spacingmark", "Mc"), ("Surrogate", "Cs"), ("Symbol", "S"),
    ("Titlecaseletter", "Lt"), ("Unassigned", "Cn"), ("Uppercaseletter", "Lu"),
];

/// The scripts that a pattern can name: those of one word, since no canonical name equals another one's.
#[rustfmt::skip]
const SCRIPTS: &[&str] = &[
    "Adlam", "Ahom", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Batak", "Bengali", "Bhaiksuki",
    "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid", "Carian", "Chakma", "Cham", "Cherokee", "Chorasmian",
    "Common", "Coptic", "Cuneiform", "Cypriot", "Cyrillic", "Deseret", "Devanagari", "Dogra", "Duployan", "Elbasan",
    "Elymaic", "Ethiopic", "Georgian", "Glagolitic", "Gothic", "Grantha", "Greek", "Gujarati", "Gurmukhi", "Han",
    "Hangul", "Hanunoo", "Hatran", "Hebrew", "Hiragana", "Inherited", "Javanese", "Kaithi", "Kannada", "Katakana",
    "Kawi", "Kharoshthi", "Khmer", "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha", "Limbu", "Lisu", "Lycian",
    "Lydian", "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen", "Medefaidrin", "Miao", "Modi",
    "Mongolian", "Mro", "Multani", "Myanmar", "Nabataean", "Nandinagari", "Newa", "Nko", "Nushu", "Ogham", "Oriya",
    "Osage", "Osmanya", "Palmyrene", "Phoenician", "Rejang", "Runic", "Samaritan", "Saurashtra", "Sharada",
    "Shavian", "Siddham", "Sinhala", "Sogdian", "Soyombo", "Sundanese", "Syriac", "Tagalog", "Tagbanwa", "Takri",
    "Tamil", "Tangsa", "Tangut", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta", "Toto", "Ugaritic",
    "Vai", "Vithkuqi", "Wancho", "Yezidi", "Yi",
];

/// Go's `canonicalName`: one capital letter first, and no blanks, hyphens or underscores.
fn canonical(name: &str) -> String {
    let mut letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first
        .into_iter()
        .chain(letters.map(|c| c.to_ascii_lowercase()))
        .collect()
}

/// What `\p{name}` matches, or what it doesn't if `negated`; `None` if Go knows no such class.
pub(super) fn of_unicode(name: &str, negated: bool) -> Option<String> {
    let name = canonical(name);
    let category = ALIASES
        .iter()
        .find(|(alias, _)| *alias == name)
        .map_or(name.as_str(), |(_, category)| category);
    let in_time = |members: &str| format!(r"{members}&&\p{{age=15.0}}");
    let unassigned = |more: &str| format!(r"{more}\p{{gc=Cn}}\P{{age=15.0}}");
    let (members, inverted) = match category {
        "Any" => (EVERYTHING.to_owned(), false),
        "Ascii" => (r"\x00-\x7F".to_owned(), false),
        "Assigned" => (unassigned(""), true),
        "Cn" => (unassigned(""), false),
        "C" => (unassigned(r"\p{gc=C}"), false),
        // Surrogates are in no text.
        "Cs" => (EVERYTHING.to_owned(), true),
        // The one character that has changed its category since.
        "Mc" => (in_time(r"\p{gc=Mc}") + r"--\x{1171E}", false),
        "Mn" => (in_time(r"\p{gc=Mn}\x{1171E}"), false),
        category if CATEGORIES.contains(&category) => (in_time(&format!(r"\p{{gc={category}}}")), false),
        script if SCRIPTS.contains(&script) => (in_time(&format!(r"\p{{sc={script}}}")), false),
        _ => return None,
    };
    let sign = if negated == inverted { "" } else { "^" };
    Some(format!("[{sign}{members}]"))
}

/// `\d` and its kin.
pub(super) fn of_perl(escape: &str) -> Option<&'static str> {
    Some(match escape {
        r"\d" => "[0-9]",
        r"\D" => "[^0-9]",
        r"\s" => r"[\t\n\x0C\r\x20]",
        r"\S" => r"[^\t\n\x0C\r\x20]",
        r"\w" => "[0-9A-Za-z_]",
        r"\W" => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// `[:alpha:]` and its kin.
pub(super) fn of_posix(name: &str) -> Option<&'static str> {
    Some(match name {
        "[:alnum:]" => "[0-9A-Za-z]",
        "[:^alnum:]" => "[^0-9A-Za-z]",
        "[:alpha:]" => "[A-Za-z]",
        "[:^alpha:]" => "[^A-Za-z]",
        "[:ascii:]" => r"[\x00-\x7F]",
        "[:^ascii:]" => r"[^\x00-\x7F]",
        "[:blank:]" => r"[\t\x20]",
        "[:^blank:]" => r"[^\t\x20]",
        "[:cntrl:]" => r"[\x00-\x1F\x7F]",
        "[:^cntrl:]" => r"[^\x00-\x1F\x7F]",
        "[:digit:]" => "[0-9]",
        "[:^digit:]" => "[^0-9]",
        "[:graph:]" => r"[\x21-\x7E]",
        "[:^graph:]" => r"[^\x21-\x7E]",
        "[:lower:]" => "[a-z]",
        "[:^lower:]" => "[^a-z]",
        "[:print:]" => r"[\x20-\x7E]",
        "[:^print:]" => r"[^\x20-\x7E]",
        "[:punct:]" => r"[\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E]",
        "[:^punct:]" => r"[^\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E]",
        "[:space:]" => r"[\t\n\x0B\x0C\r\x20]",
        "[:^space:]" => r"[^\t\n\x0B\x0C\r\x20]",
        "[:upper:]" => "[A-Z]",
        "[:^upper:]" => "[^A-Z]",
        "[:word:]" => "[0-9A-Za-z_]",
        "[:^word:]" => "[^0-9A-Za-z_]",
        "[:xdigit:]" => "[0-9A-Fa-f]",
        "[:^xdigit:]" => "[^0-9A-Fa-f]",
        _ => return None,
    })
}

/// A range of code points. The crate refuses surrogates at its ends.
pub(super) fn range(low: u32, high: u32) -> String {
    let is_surrogate = |code: &u32| (0xD800..0xE000).contains(code);
    let low = if is_surrogate(&low) { 0xE000 } else { low };
    let high = if is_surrogate(&high) { 0xD7FF } else { high };
    if low > high {
        return NOTHING.to_owned();
    }
    format!(r"\x{{{low:X}}}-\x{{{high:X}}}")
}

/// A class and the other cases of its letters. `wide` is one that may hold some of [`NEWLY_PAIRED`], but not all or none.
pub(super) fn folded(class: &str, wide: bool) -> String {
    if !wide {
        return format!("(?i:{class})");
    }
    let newly_paired: String = NEWLY_PAIRED.iter().map(|(low, high)| range(*low, *high)).collect();
    format!("(?:(?i:[{class}--[{newly_paired}]])|[{class}&&[{newly_paired}]])")
}

/// Whether a character has no other case to Go, though it has to the crate.
pub(super) fn is_newly_paired(c: char) -> bool {
    let is_within = |(low, high): &(u32, u32)| (*low..=*high).contains(&(c as u32));
    NEWLY_PAIRED.iter().any(is_within)
}
