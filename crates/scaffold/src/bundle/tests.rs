//! A project's bundle against tests/fixtures/bundle/expected, this repository's own, and each rule broken once.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;
use crate::api::{self, ApiRequest};
use crate::chart::ChartFiles;
use crate::crd;
use crate::project::FILE;
use crate::tree::{FileTree, WrittenDigests};

const SET_TO_WRITE: &str = "BUNDLE_WRITE";
const CSV: &str = "manifests/shop-operator.clusterserviceversion.yaml";
const DEFINITION: &str = "manifests/shop.example.com_webs.yaml";

fn fixtures() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/bundle")
}

/// A project of one kind, as `init` and `create api` make it.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut project = Project::new(root, "shop-operator", "example.com");
    let mut written = WrittenDigests::new();
    let mut write = |tree: FileTree| {
        let changes = tree.compare(root, &written, false).unwrap();
        changes.write(root).unwrap();
        changes.remember(&mut written);
    };
    write(api::init(&project, "chartwright:0.1.0").unwrap());
    let chart = ChartFiles::read(&fixtures().join("chart")).unwrap();
    let wanted = ApiRequest {
        group: "shop".into(),
        ..ApiRequest::default()
    };
    let kind = api::Kind::of(&project, &wanted, &chart.name).unwrap();
    let names = crd::Names {
        group: kind.resource.full_group(),
        version: kind.resource.version.clone(),
        kind: kind.resource.kind.clone(),
        ..crd::Names::default()
    };
    let source = crd::ChartValues::of(chart.load().unwrap(), chart.files.clone()).unwrap();
    let generated = crd::generate(&source, names, &crd::Overlay::default(), crd::Surroundings::default()).unwrap();
    let placed = chart.into_place(&project, true, false).unwrap();
    write(api::create(&mut project, &kind, &placed, &generated.definition()).unwrap());
    fs::write(root.join(FILE), project.to_text(&written).unwrap()).unwrap();
    folder
}

fn asked(root: &Path) -> BundleOptions {
    BundleOptions {
        version: Some("0.1.0".into()),
        output: root.join("bundle"),
        ..BundleOptions::default()
    }
}

fn made(root: &Path) -> Made {
    generate(root, &asked(root)).unwrap()
}

fn csv_of(made: &Made) -> Value {
    let csv = made
        .files
        .iter()
        .find(|(name, _)| name.ends_with(".clusterserviceversion.yaml"));
    go_yaml::to_json(csv.unwrap().1.as_bytes()).unwrap()
}

fn messages(findings: &[BundleFinding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_bundle_is_as_it_was() {
    let folder = project();
    let root = folder.path();
    let made = made(root);
    assert_eq!(
        messages(&made.findings),
        [format!(
            "{CSV}: spec.icon is missing: one picture, as base64data and mediatype"
        )]
    );
    let (base_file, base) = made.base.as_ref().unwrap();
    let names: Vec<&str> = made.files.keys().map(String::as_str).collect();
    let mut wrong = String::new();
    for (name, found) in [
        ("files.txt", names.join("\n") + "\n"),
        ("base.yaml", base.clone()),
        ("csv.yaml", made.files[CSV].clone()),
        ("annotations.yaml", made.files[metadata::ANNOTATIONS].clone()),
        ("bundle.Dockerfile", made.dockerfile.clone()),
    ] {
        let path = fixtures().join("expected").join(name);
        if std::env::var_os(SET_TO_WRITE).is_some() {
            fs::write(&path, &found).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if expected != found {
            let _ = writeln!(wrong, "{}: expected\n{expected}\nfound\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(
        base_file,
        Path::new("config/manifests/bases/shop-operator.clusterserviceversion.yaml")
    );
    let definition = |text: &str| go_yaml::to_json(text.as_bytes()).unwrap()["spec"].clone();
    let own = fs::read_to_string(root.join("config/crd/bases/shop.example.com_webs.yaml")).unwrap();
    assert_eq!(definition(&made.files[DEFINITION]), definition(&own));
}

#[test]
fn what_is_written_by_hand_has_the_last_word() {
    let folder = project();
    let root = folder.path();
    let (path, text) = made(root).base.unwrap();
    let mut base = go_yaml::to_json(text.as_bytes()).unwrap();
    base["spec"]["description"] = "Mine.".into();
    base["spec"]["replaces"] = "shop-operator.v0.0.9".into();
    base["spec"]["icon"] = json!([{"base64data": "", "mediatype": ""}]);
    base["spec"]["customresourcedefinitions"]["owned"] =
        json!([{"name": "webs.shop.example.com", "kind": "Web", "version": "v1alpha1", "displayName": "Web server"}]);
    base["spec"]["relatedImages"] = json!([{"name": "web", "image": "example.com/other:1"}]);
    fs::create_dir_all(root.join(&path).parent().unwrap()).unwrap();
    fs::write(root.join(&path), serde_yaml::to_string(&base).unwrap()).unwrap();
    let made = made(root);
    assert!(made.base.is_none() && made.is_valid());
    let csv = csv_of(&made);
    let spec = &csv["spec"];
    assert_eq!(
        (&spec["description"], &spec["replaces"]),
        (&json!("Mine."), &json!("shop-operator.v0.0.9"))
    );
    assert!(spec["icon"].is_null());
    let owned = &spec["customresourcedefinitions"]["owned"][0];
    assert_eq!(owned["displayName"], "Web server");
    assert!(owned["specDescriptors"].as_array().is_some_and(|all| !all.is_empty()));
    let images: Vec<_> = spec["relatedImages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(images, ["web", "manager", "web-2"]);
}

#[test]
fn what_is_asked_for_is_in_the_bundle() {
    let folder = project();
    let root = folder.path();
    let asked = BundleOptions {
        version: Some("0.2.0".into()),
        package: Some("shop".into()),
        channels: vec!["stable".into(), "fast".into()],
        default_channel: Some("fast".into()),
        image: Some("example.com/shop:0.2.0".into()),
        replaces: Some("0.1.0".into()),
        skip_range: Some(">=0.0.1 <0.2.0".into()),
        ..asked(root)
    };
    let made = generate(root, &asked).unwrap();
    assert!(made.is_valid(), "{:?}", made.findings);
    let csv = csv_of(&made);
    assert_eq!(csv["metadata"]["name"], "shop.v0.2.0");
    assert_eq!(csv["spec"]["replaces"], "shop.v0.1.0");
    let annotations = &csv["metadata"]["annotations"];
    assert_eq!(annotations["olm.skipRange"], ">=0.0.1 <0.2.0");
    assert_eq!(annotations["containerImage"], "example.com/shop:0.2.0");
    assert!(
        made.dockerfile.contains("channels.v1=stable,fast\n") && made.dockerfile.contains("channel.default.v1=fast\n")
    );
    // The second time, options that are not given keep their value, and files that are no longer generated are deleted.
    made.tree(&asked)
        .compare(root, &WrittenDigests::new(), true)
        .unwrap()
        .write(root)
        .unwrap();
    fs::write(asked.output.join("manifests/old.yaml"), "a: b\n").unwrap();
    let again = BundleOptions {
        version: None,
        channels: Vec::new(),
        default_channel: None,
        ..asked.clone()
    };
    let second = generate(root, &again).unwrap();
    assert_eq!((&second.files, &second.dockerfile), (&made.files, &made.dockerfile));
    assert_eq!(second.stale(&again).unwrap(), [asked.output.join("manifests/old.yaml")]);
    let kept = BundleOptions {
        channels: vec!["candidate".into()],
        keep_metadata: true,
        ..again
    };
    assert_eq!(generate(root, &kept).unwrap().files, made.files);
}

#[test]
fn manifests_may_come_from_elsewhere() {
    let folder = project();
    let root = folder.path();
    let mut text = String::new();
    for object in kustomize::build(root, Path::new(MANIFESTS)).unwrap() {
        text += &format!("---\n{}", serde_yaml::to_string(&object).unwrap());
    }
    let from = |input: Manifests| {
        let input = Some(input);
        generate(root, &BundleOptions { input, ..asked(root) }).map(|made| made.files)
    };
    let expected = made(root).files;
    assert_eq!(from(Manifests::Text(text.clone())).unwrap(), expected);
    let other = root.join("deploy");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("all.yaml"), text).unwrap();
    assert_eq!(from(Manifests::Folder(other.clone())).unwrap(), expected);
    fs::write(other.join("all.yaml"), "").unwrap();
    let error = from(Manifests::Folder(other)).unwrap_err().to_string();
    assert!(error.contains("there are no manifests"), "{error}");
}

#[test]
fn this_repository_has_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
        &asked(folder.path()),
    )
    .unwrap();
    assert_eq!(messages(&made.findings), [""; 0]);
    assert_eq!((made.name.as_str(), made.base.is_none()), ("chartwright.v0.1.0", true));
    let csv = csv_of(&made);
    let examples: Value =
        serde_json::from_str(csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap()).unwrap();
    assert_eq!(examples.as_array().unwrap().len(), 4);
}

/// What is done to a project.
type Spoil = Box<dyn Fn(&Path)>;
/// What is done to a ClusterServiceVersion.
type Break = fn(&mut Value);

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn what_is_wrong_with_a_project_is_one_sentence() {
    let edit = |root: &Path, file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert!(text.contains(from), "{file}: {text}");
        fs::write(root.join(file), text.replace(from, to)).unwrap();
    };
    const BASE: &str = "config/manifests/bases/shop-operator.clusterserviceversion.yaml";
    let write = |root: &Path, text: &str| {
        fs::create_dir_all(root.join(BASE).parent().unwrap()).unwrap();
        fs::write(root.join(BASE), text).unwrap();
    };
    const UNRELATED: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: unrelated}\n";
    let replace = move |root: &Path, folder: &str, file: &str| {
        fs::write(root.join(folder).join("unrelated.yaml"), UNRELATED).unwrap();
        edit(root, &format!("{folder}/kustomization.yaml"), file, "unrelated.yaml");
    };
    let mut cases: Vec<(&str, Spoil)> = Vec::new();
    let mut case = |expected, spoil: Spoil| cases.push((expected, spoil));
    case(
        "there is no project in",
        Box::new(|root| {
            fs::remove_dir_all(root).unwrap();
            fs::create_dir(root).unwrap();
        }),
    );
    case(
        "is no ClusterServiceVersion with `metadata` and `spec`",
        Box::new(move |root| write(root, "kind: Deployment\n")),
    );
    case(
        "shop-operator.clusterserviceversion.yaml: error converting YAML",
        Box::new(move |root| write(root, "a: [\n")),
    );
    case(
        "watches.yaml:2: Web.shop.example.com is watched, and no CustomResourceDefinition",
        Box::new(move |root| replace(root, "config/crd", "bases/shop.example.com_webs.yaml")),
    );
    case(
        "config/samples has no Web.shop.example.com",
        Box::new(move |root| replace(root, "config/samples", "shop_v1alpha1_web.yaml")),
    );
    case(
        "is watched in version v1, and its CustomResourceDefinition serves v1alpha1",
        Box::new(move |root| {
            edit(root, "watches.yaml", "version: v1alpha1", "version: v1");
        }),
    );
    case(
        "accumulating resources from 'none.yaml'",
        Box::new(move |root| {
            edit(
                root,
                "config/default/kustomization.yaml",
                "- metrics_service.yaml",
                "- none.yaml",
            );
        }),
    );
    case(
        "there is no Deployment",
        Box::new(move |root| {
            edit(root, "config/default/kustomization.yaml", "- ../manager", "");
        }),
    );
    case(
        "watches.yaml has no kind yet",
        Box::new(|root| fs::write(root.join("watches.yaml"), "[]\n").unwrap()),
    );
    for (expected, spoil) in cases {
        let folder = project();
        spoil(folder.path());
        let error = format!("{:#}", generate(folder.path(), &asked(folder.path())).unwrap_err());
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let folder = project();
    for (version, expected) in [
        (Some("1.0"), "--version 1.0: is no semantic version"),
        (None, "--version is missing"),
    ] {
        let version = version.map(str::to_owned);
        let error = generate(
            folder.path(),
            &BundleOptions {
                version,
                ..asked(folder.path())
            },
        )
        .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let default_channel = Some("stable".to_owned());
    let error = generate(
        folder.path(),
        &BundleOptions {
            default_channel,
            ..asked(folder.path())
        },
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "--default-channel stable: the bundle's channels are candidate"
    );
}

/// What is done to a ClusterServiceVersion, and what is said of it then.
const OF_CSV: [(&str, Break); 34] = [
    ("`apiVersion` has to be", |csv| csv["apiVersion"] = "v1".into()),
    ("characters, and 63 are the most", |csv| {
        csv["metadata"]["name"] = "x".repeat(64).into()
    }),
    ("metadata.name: \"Shop\" can't be the name", |csv| {
        csv["metadata"]["name"] = "Shop".into()
    }),
    ("metadata.name: usual is shop-operator.v0.1.0", |csv| {
        csv["metadata"]["name"] = "shop".into()
    }),
    ("spec.version: \"0.0.0\"", |csv| csv["spec"]["version"] = "0.0.0".into()),
    ("spec.replaces: \"a_b\"", |csv| csv["spec"]["replaces"] = "a_b".into()),
    ("a bundle can't replace itself", |csv| {
        csv["spec"]["replaces"] = "shop-operator.v0.1.0".into()
    }),
    ("spec.minKubeVersion: \"1.25\"", |csv| {
        csv["spec"]["minKubeVersion"] = "1.25".into()
    }),
    ("spec.minKubeVersion is missing", |csv| {
        csv["spec"]["minKubeVersion"] = Value::Null
    }),
    ("olm.skiprange has to be written olm.skipRange", |csv| {
        annotate(csv, "olm.skiprange", "<1.0.0")
    }),
    ("\"until 1\" is no range", |csv| {
        annotate(csv, "olm.skipRange", "until 1")
    }),
    ("capabilities: \"All\" is none of", |csv| {
        annotate(csv, "capabilities", "All")
    }),
    ("categories: \"Cooking\" is none of", |csv| {
        annotate(csv, "categories", "Database, Cooking")
    }),
    ("spec.installModes is missing", |csv| {
        csv["spec"]["installModes"] = json!([])
    }),
    ("AllNamespaces has to be supported", |csv| {
        csv["spec"]["installModes"][3]["supported"] = false.into()
    }),
    ("AllNamespaces is there twice", |csv| {
        csv["spec"]["installModes"][0]["type"] = "AllNamespaces".into()
    }),
    ("\"Some\" is none of OwnNamespace", |csv| {
        csv["spec"]["installModes"][0]["type"] = "Some".into()
    }),
    ("OLM v1 installs no bundle that depends", |csv| {
        csv["spec"]["customresourcedefinitions"]["required"] = json!([{"name": "a.b"}]);
    }),
    ("spec.displayName is missing", |csv| {
        csv["spec"]["displayName"] = "".into()
    }),
    ("spec.provider.name is missing", |csv| {
        csv["spec"]["provider"] = json!({})
    }),
    ("spec.maintainers: \"Bob\"", |csv| {
        csv["spec"]["maintainers"] = json!([{"name": "Bob", "email": "bob"}])
    }),
    ("spec.links: \"a\"", |csv| {
        csv["spec"]["links"] = json!([{"name": "a", "url": "www.example.com"}])
    }),
    ("the mediatype \"image/bmp\"", |csv| {
        csv["spec"]["icon"] = json!([{"base64data": "AA==", "mediatype": "image/bmp"}])
    }),
    ("no base64", |csv| {
        csv["spec"]["icon"] = json!([{"base64data": "?", "mediatype": "image/png"}])
    }),
    ("one picture, and no more", |csv| csv["spec"]["icon"] = json!([{}, {}])),
    ("alm-examples is missing, or no list", |csv| {
        annotate(csv, "alm-examples", "{")
    }),
    ("Web.shop.example.com has no example", |csv| {
        annotate(csv, "alm-examples", "[]")
    }),
    ("X.a.b in v1 is not owned", |csv| {
        annotate(csv, "alm-examples", r#"[{"apiVersion": "a.b/v1", "kind": "X"}]"#)
    }),
    ("spec.relatedImages: \"A b\"", |csv| {
        csv["spec"]["relatedImages"][0]["image"] = "A b".into()
    }),
    ("spec.install has no Deployment", |csv| {
        csv["spec"]["install"]["spec"]["deployments"] = json!([])
    }),
    ("the container manager has no requests", |csv| {
        csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"][0]["resources"] =
            Value::Null;
    }),
    ("the operator may make CustomResourceDefinitions", |csv| {
        csv["spec"]["install"]["spec"]["clusterPermissions"][0]["rules"][0] =
            json!({"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["create"]});
    }),
    (
        "the bundle has no CustomResourceDefinition webs.shop.example.com of Web in v2",
        |csv| {
            csv["spec"]["customresourcedefinitions"]["owned"][0]["version"] = "v2".into();
        },
    ),
    ("webs.shop.example.com is owned and has no `description`", |csv| {
        csv["spec"]["customresourcedefinitions"]["owned"][0]["description"] = "".into();
    }),
];

fn annotate(csv: &mut Value, name: &str, value: &str) {
    csv["metadata"]["annotations"][name] = value.into();
}

/// A file that is added, and what is said of it.
const OF_FILES: [(&str, &str, &str); 12] = [
    (
        "folders and hidden files",
        "manifests/a/b.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: a}}",
    ),
    ("without `apiVersion` or `kind`", "manifests/b.yaml", "a: b"),
    (
        "one object a file",
        "manifests/b.yaml",
        "{apiVersion: v1, kind: Service}\n---\n{apiVersion: v1, kind: Service}",
    ),
    (
        "OLM takes no Pod",
        "manifests/b.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: a}}",
    ),
    (
        "has no place in a bundle",
        "manifests/b.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: b}}",
    ),
    (
        "`maxUnavailable` of nothing",
        "manifests/b.yaml",
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {maxUnavailable: 0}}",
    ),
    (
        "`minAvailable: 100%`",
        "manifests/b.yaml",
        "{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: 100%}}",
    ),
    (
        "for every pod of the cluster",
        "manifests/b.yaml",
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, globalDefault: true}",
    ),
    (
        "OLM makes the ServiceAccount",
        "manifests/b.yaml",
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: shop-operator-controller-manager}}",
    ),
    (
        "a bundle has one ClusterServiceVersion, and this has 2",
        "manifests/b.yaml",
        "{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion}",
    ),
    (
        "doesn't own others.a.b",
        "manifests/b.yaml",
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: others.a.b}}",
    ),
    (
        "webs.shop.example.com is defined twice",
        "manifests/z.yaml",
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: webs.shop.example.com}}",
    ),
];

/// A label that says something else, and what is said of it.
const OF_LABELS: [(&str, &str, &str); 6] = [
    ("mediatype.v1` has to be registry+v1", "registry+v1", "helm"),
    ("manifests.v1` has to be manifests/", "manifests/", "objects/"),
    (
        "can't be the name of a package",
        "package.v1: shop-operator",
        "package.v1: Shop",
    ),
    ("has to name channels", "channels.v1: candidate", "channels.v1: ''"),
    (
        "the channel alpha: names of channels",
        "channels.v1: candidate",
        "channels.v1: alpha",
    ),
    ("it is missing, or has no `annotations`", "annotations:", "labels:"),
];

#[test]
fn each_rule_that_is_broken_is_one_sentence() {
    let folder = project();
    let good = made(folder.path()).files;
    let mut wrong = String::new();
    let mut expect = |expected: &str, files: &BundleFiles| {
        let known = messages(&check::check(&good));
        let found: Vec<String> = messages(&check::check(files))
            .into_iter()
            .filter(|one| !known.contains(one))
            .collect();
        if !found.iter().any(|one| one.contains(expected)) {
            let _ = writeln!(wrong, "{expected}: {found:?}");
        }
        found.len()
    };
    for (expected, spoil) in OF_CSV {
        let mut files = good.clone();
        let mut csv = go_yaml::to_json(files[CSV].as_bytes()).unwrap();
        spoil(&mut csv);
        files.insert(CSV.to_owned(), serde_yaml::to_string(&csv).unwrap());
        let count = expect(expected, &files);
        assert!(count <= 4, "{expected}: {count}");
    }
    for (expected, file, text) in OF_FILES {
        let mut files = good.clone();
        files.insert(file.to_owned(), text.to_owned());
        expect(expected, &files);
    }
    for (expected, from, to) in OF_LABELS {
        let mut files = good.clone();
        let text = files[metadata::ANNOTATIONS].replace(from, to);
        files.insert(metadata::ANNOTATIONS.to_owned(), text);
        let count = expect(expected, &files);
        assert!(count <= 2, "{expected}: {count}");
    }
    let mut noise = 1_u64;
    let mut letters = || {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + u8::try_from(noise >> 59).unwrap() % 26)
    };
    let large: String = (0..1_400_000).map(|_| letters()).collect();
    let mut files = good.clone();
    files.insert(
        "manifests/b.yaml".to_owned(),
        format!("{{apiVersion: v1, kind: ConfigMap, data: {{a: {large}}}}}"),
    );
    expect("KiB packed; 1024 are the most", &files);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn versions_images_and_addresses_have_their_forms() {
    for (is, good, bad) in [
        (
            check::is_version as fn(&str) -> bool,
            &["0.1.0", "1.2.3-rc.1+x"][..],
            &["1.0", "v1.0.0", "01.0.0", ""][..],
        ),
        (
            check::is_image,
            &[
                "a",
                "example.com:5000/a/b_c:1.0",
                "a@sha256:0123456789abcdef0123456789abcdef",
            ],
            &["", "A", "a b", "example.com/", "a:", "https://a/b"],
        ),
        (check::is_email, &["a@b"], &["a", "@b", "a@", "a <b@c>"]),
        (check::is_link, &["https://a.b/c"], &["a.b", "mailto:a@b", ""]),
    ] {
        assert!(good.iter().all(|text| is(text)), "{good:?}");
        assert!(!bad.iter().any(|text| is(text)), "{bad:?}");
    }
}
