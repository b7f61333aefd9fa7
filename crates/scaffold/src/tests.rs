//! What is generated of hostile names, keys and descriptions is read again, and has to be what was meant: no object, line or word
//! more.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use super::api::{self, ApiRequest, Kind};
use super::bundle::{self, BundleOptions};
use super::chart::ChartFiles;
use super::crd;
use super::names::check_chart_name;
use super::project::{self, FILE, Project};
use super::tree::{FileTree, WrittenDigests};
use helm_template::chart::File;

/// What hostile texts are made of: the ends of lines, comments, documents and quotes, references, commands, words of YAML 1.1.
const PIECES: [&str; 34] = [
    "\n",
    "\r\n",
    "\r",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{feff}",
    "\t",
    "# ",
    ": ",
    "- ",
    "'",
    "\"",
    "\\",
    "{{ evil }}",
    "{{/",
    "$(touch x)",
    "$$",
    "`x`",
    "%",
    "*a",
    "&a",
    "!!binary ",
    "|",
    ">",
    "\u{1b}[2J",
    "no",
    "null",
    "1e3",
    "0x1f",
    "~",
    "é",
    "key",
    "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: evil}\n",
];

fn hostile() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(&PIECES[..]);
    vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// A text in double quotes, as both YAML and JSON read it.
fn quoted(text: &str) -> String {
    let one = |c: char| match c {
        ' '..='~' if c != '"' && c != '\\' => c.to_string(),
        c => format!("\\u{:04x}", u32::from(c)),
    };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}

/// What of a chart is its author's.
#[derive(Clone, Debug)]
struct Words {
    keys: Vec<String>,
    description: String,
    comment: String,
    value: String,
}

fn words() -> impl Strategy<Value = Words> {
    let keys = btree_set(hostile(), 1..4).prop_map(|keys| keys.into_iter().collect());
    (keys, hostile(), hostile(), hostile()).prop_map(|(keys, description, comment, value)| Words {
        keys,
        description,
        comment,
        value,
    })
}

/// A chart with these words in every field that accepts a text.
fn chart(words: &Words) -> ChartFiles {
    let text = quoted(&words.description);
    let about = format!(
        "apiVersion: v2\nname: web\nversion: 1.0.0\nappVersion: {text}\ndescription: {text}\nkeywords: [{text}]\nhome: {text}\n\
         icon: {text}\nsources: [{text}]\nmaintainers: [{{name: {text}, email: {text}, url: {text}}}]\n"
    );
    let mut values = String::new();
    let mut properties = serde_json::Map::new();
    for key in &words.keys {
        // YAML has no escape sequences in comments.
        let comment = words.comment.replace(['\n', '\r'], "\n# ").replace('\u{1b}', "");
        values += &format!("# -- {comment}\n{}: {}\n", quoted(key), quoted(&words.value));
        let schema = json!({"type": "string", "title": words.description, "description": words.description, "enum": [words.value, "a"]});
        properties.insert(key.clone(), schema);
    }
    let schema = json!({"type": "object", "properties": properties, "required": words.keys}).to_string();
    let file = |name: &str, text: &str| File {
        name: name.to_owned(),
        data: text.into(),
    };
    ChartFiles {
        name: "web".to_owned(),
        files: vec![
            file("Chart.yaml", &about),
            file("values.yaml", &values),
            file("values.schema.json", &schema),
            file(
                "templates/a.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            ),
        ],
    }
}

/// A project, and what was meant.
struct Made {
    files: BTreeMap<PathBuf, String>,
    definition: Value,
}

/// Makes a project of a chart, with its bundle. The chart's own files aren't among them.
fn make(chart: ChartFiles, wanted: &ApiRequest, has_bundle: bool) -> anyhow::Result<Made> {
    let folder = tempfile::tempdir()?;
    let root = folder.path();
    let mut project = Project::new(root, "shop-operator", "example.com");
    let mut written = WrittenDigests::new();
    let mut write = |tree: FileTree| {
        let changes = tree.compare(root, &written, false)?;
        changes.write(root)?;
        changes.remember(&mut written);
        anyhow::Ok(())
    };
    write(api::init(&project, "chartwright:0.1.0")?)?;
    let kind = Kind::of(&project, wanted, &chart.name)?;
    let names = crd::Names {
        group: kind.resource.full_group(),
        version: kind.resource.version.clone(),
        kind: kind.resource.kind.clone(),
        ..crd::Names::default()
    };
    let source = crd::ChartValues::of(chart.load()?, chart.files.clone())?;
    let generated = crd::generate(&source, names, &crd::Overlay::default(), crd::Surroundings::default())?;
    let definition = generated.definition();
    let placed = chart.into_place(&project, true, false)?;
    write(api::create(&mut project, &kind, &placed, &definition)?)?;
    fs::write(root.join(FILE), project.to_text(&written)?)?;
    let mut files = BTreeMap::new();
    collect(root, Path::new(""), &mut files)?;
    if !has_bundle {
        return Ok(Made { files, definition });
    }
    let asked = BundleOptions {
        version: Some("0.1.0".into()),
        output: root.join("bundle"),
        ..BundleOptions::default()
    };
    let bundle = bundle::generate(root, &asked)?;
    files.extend(
        bundle
            .files
            .into_iter()
            .map(|(name, text)| (Path::new("bundle").join(name), text)),
    );
    files.insert("bundle.Dockerfile".into(), bundle.dockerfile);
    files.extend(bundle.base);
    Ok(Made { files, definition })
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let path = folder.join(entry?.file_name());
        if path.starts_with("charts/web") {
            continue;
        }
        if root.join(&path).is_dir() {
            collect(root, &path, files)?
        } else {
            drop(files.insert(path.clone(), fs::read_to_string(root.join(&path))?))
        }
    }
    Ok(())
}

/// Workflows of GitHub are read as YAML 1.2, and have nothing of a project in them.
fn is_yaml(path: &Path) -> bool {
    let is_workflow = path.starts_with(".github");
    path.extension().is_some_and(|end| end == "yaml" && !is_workflow) || path == Path::new(FILE)
}

/// The documents of a file, which Go's reader and ours read alike.
fn documents(path: &Path, text: &str) -> Vec<Value> {
    let shown = path.display();
    let documents = go_yaml::documents(text).unwrap_or_else(|error| panic!("{shown}: {error}\n{text}"));
    let read = |document: &&str| {
        go_yaml::to_json(document.as_bytes()).unwrap_or_else(|error| panic!("{shown}: {error}\n{text}"))
    };
    let found: Vec<Value> = documents.iter().map(read).filter(|value| !value.is_null()).collect();
    let ours: Vec<Value> = serde_yaml::Deserializer::from_str(text)
        .map(|document| {
            serde::Deserialize::deserialize(document).unwrap_or_else(|error| panic!("{shown}: {error}\n{text}"))
        })
        .filter(|value: &Value| !value.is_null())
        .collect();
    assert_eq!(found, ours, "{shown}: readers differ\n{text}");
    found
}

/// What the objects of each file are.
fn kinds(files: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, Vec<(Value, Value)>> {
    let yaml = files.iter().filter(|(path, _)| is_yaml(path));
    let of = |value: &Value| (value["apiVersion"].clone(), value["kind"].clone());
    yaml.map(|(path, text)| (path.clone(), documents(path, text).iter().map(of).collect()))
        .collect()
}

fn web() -> ApiRequest {
    ApiRequest {
        group: "shop".into(),
        ..ApiRequest::default()
    }
}

proptest! {
    #![proptest_config(Config { cases: 24, failure_persistence: None, ..Config::default() })]

    #[test]
    fn words_of_charts_stay_words(words in words()) {
        let harmless = Words {
            keys: vec!["size".into()],
            description: "Text".into(),
            comment: "Text".into(),
            value: "b".into(),
        };
        // kustomize refuses texts with these line breaks of YAML 1.1, or writes what is not YAML.
        let is_readable = |text: &String| !text.contains(['\u{85}', '\u{2028}', '\u{2029}']);
        let has_bundle = words.keys.iter().chain([&words.description, &words.value]).all(is_readable);
        let expected = make(chart(&harmless), &web(), has_bundle).unwrap();
        let made = make(chart(&words), &web(), has_bundle).unwrap();
        prop_assert_eq!(kinds(&made.files), kinds(&expected.files));
        for (path, text) in &made.files {
            // Nothing of a chart's words gets into what isn't YAML.
            if !is_yaml(path) {
                prop_assert_eq!(text, &expected.files[path], "{}", path.display());
            }
        }
        let file = |path: &str| documents(Path::new(path), &made.files[Path::new(path)]).remove(0);
        prop_assert_eq!(file("config/crd/bases/shop.example.com_webs.yaml"), made.definition.clone());
        let sample = json!({
            "apiVersion": "shop.example.com/v1alpha1", "kind": "Web", "metadata": {"name": "web-sample"}, "spec": {},
        });
        prop_assert_eq!(file("config/samples/shop_v1alpha1_web.yaml"), sample);
        let schema = &made.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        for key in &words.keys {
            prop_assert!(schema.get(key).is_some(), "{:?}", key);
        }
    }

    /// A name is refused before any file is made, or every file has it as the same text.
    #[test]
    fn names_are_refused_or_stay_names(name in prop_oneof![hostile(), "[a-z0-9]{1,3}", "[0-9]e[0-9]", "0x[0-9a-f]{1,2}"]) {
        let make = |name: &str| {
            let project = Project::new(Path::new("/nowhere"), name, "example.com");
            let changes = api::init(&project, "chartwright:1").unwrap().compare(Path::new("/nowhere"), &WrittenDigests::new(), false);
            changes.unwrap().files.into_iter().map(|file| (file.path.clone(), file.text())).collect::<BTreeMap<_, _>>()
        };
        if project::check_name(&name).is_ok() {
            let (made, expected) = (make(&name), make("shop-operator"));
            for (path, text) in &made {
                let want = &expected[path];
                if is_yaml(path) {
                    let want: Vec<Value> = documents(path, want);
                    let want = serde_json::to_string(&want).unwrap().replace("shop-operator", &name);
                    prop_assert_eq!(serde_json::to_string(&documents(path, text)).unwrap(), want, "{}", path.display());
                } else { prop_assert_eq!(text, &want.replace("shop-operator", &name), "{}", path.display()) }
            }
        }
        let is_harmful = |name: &str| name.chars().any(|c| c.is_control() || c.is_whitespace() || "/\\'\"$`;|&*(){}".contains(c));
        if is_harmful(&name) {
            let project = Project::new(Path::new("/nowhere"), "shop-operator", "example.com");
            let refused = |change: &dyn Fn(&mut ApiRequest)| {
                let mut wanted = web();
                change(&mut wanted);
                Kind::of(&project, &wanted, "web").is_err()
            };
            prop_assert!(check_chart_name(&name).is_err() && project::check_name(&name).is_err());
            prop_assert!(project::check_domain(&name).is_err());
            prop_assert!(refused(&|wanted| wanted.kind.clone_from(&name)) && refused(&|wanted| wanted.plural.clone_from(&name)));
            prop_assert!(refused(&|wanted| wanted.version.clone_from(&name)) && refused(&|wanted| wanted.group.clone_from(&name)));
            // A registry's host may have a port, and an image a path.
            let is_image = bundle::check::is_image(&name);
            prop_assert!(!is_image || !name.chars().any(|c| c.is_control() || c.is_whitespace()), "{:?}", name);
        }
    }
}

/// Kinds that YAML 1.1 takes for booleans or nothing.
#[test]
fn words_of_yaml_are_no_kinds() {
    let project = Project::new(Path::new("/nowhere"), "shop-operator", "example.com");
    for kind in ["No", "On", "Y", "N", "Null", "True", "Yes", "Off"] {
        let wanted = ApiRequest {
            kind: kind.into(),
            ..web()
        };
        let error = Kind::of(&project, &wanted, "web").unwrap_err().to_string();
        assert!(error.contains("YAML"), "{kind}: {error}");
    }
}
