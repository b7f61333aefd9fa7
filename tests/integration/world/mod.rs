//! A world is what an integration test needs: a namespace, a kind of its own, rights, a chart, and operator processes.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::support::{ControlPlane, Kubectl};

mod charts;
pub mod collector;
pub mod fields;
pub mod helm_releases;
mod launch;
mod objects;
pub mod operator;
mod requests;
mod rights;
mod wait;

use charts::copy_folder;
pub use charts::{staged_chart, widget_chart};
pub use objects::{annotated_map, any_fields, config_map, crd, objects};
pub use requests::RequestsStart;
pub use rights::member_rule;

/// The time limit for most waits. It is long because the machine can be busy with other tests.
pub const SOON: Duration = Duration::from_secs(30);

/// The time limit for the garbage collector, which pauses every 30 s to read discovery.
pub const COLLECTED: Duration = Duration::from_secs(75);

/// The time limit for a correction that a watch event starts. All timers of the operator are longer.
pub const PROMPT: Duration = Duration::from_secs(10);

/// Label of a pod that never becomes ready and never ends, and label of a pod that fails.
pub const HANGS: &str = "chartwright.test/fails";
pub const CRASHES: &str = "chartwright.test/crashes";

/// JSON pointer to the image of the first container of a Deployment.
pub const IMAGE: &str = "/spec/template/spec/containers/0/image";

/// A namespace, API group and operator name on the control plane that belong to one test.
pub struct World {
    pub control_plane: &'static ControlPlane,
    /// kubectl as admin, in this world's namespace.
    pub kubectl: Kubectl,
    /// Namespace, operator name and API group (`<namespace>.test`) of this world.
    pub name: String,
    /// Holds the chart, the watches file and the logs.
    pub dir: tempfile::TempDir,
    /// Extra keys of the watch, as YAML lines without indentation.
    watch_keys: Vec<String>,
    cluster_scoped: bool,
}

/// How a world differs from the default.
pub struct WorldSetup<'a> {
    pub cluster_scoped: bool,
    /// Installs the CRD of `Widget`.
    pub crd: bool,
    /// The namespaces in which the operator has rights. Empty: the complete cluster.
    pub only_in: &'a [&'a str],
    /// Starts a separate control plane, for tests that would disturb all others.
    pub alone: bool,
    /// Resources (RBAC names) whose rights in `config/rbac` the operator does not get.
    pub without: &'a [&'a str],
}

impl WorldSetup<'_> {
    pub const USUAL: Self = WorldSetup {
        cluster_scoped: false,
        crd: true,
        only_in: &[],
        alone: false,
        without: &[],
    };
    /// Without rights on some resources.
    pub fn without<'a>(without: &'a [&'a str]) -> WorldSetup<'a> {
        WorldSetup {
            without,
            ..WorldSetup::USUAL
        }
    }

    /// With rights in these namespaces only.
    pub fn only_in<'a>(only_in: &'a [&'a str]) -> WorldSetup<'a> {
        WorldSetup {
            only_in,
            ..WorldSetup::USUAL
        }
    }

    pub const CLUSTER_SCOPED: Self = WorldSetup {
        cluster_scoped: true,
        ..Self::USUAL
    };
    pub const NO_CRD: Self = WorldSetup {
        crd: false,
        ..Self::USUAL
    };
    pub const ALONE: Self = WorldSetup {
        alone: true,
        ..Self::USUAL
    };
}

impl World {
    /// Creates a namespace, a namespaced kind `Widget` in the group `<name>.test`, and the operator's account.
    pub fn new(name: &str) -> Result<Self> {
        Self::with(name, WorldSetup::USUAL)
    }

    /// Like `new`, with the chart of hooks and plans, watch keys, and rights on further members (group, resource).
    pub fn staged(name: &str, keys: &[&str], members: &[(&str, &str)]) -> Result<Self> {
        let world = Self::new(name)?;
        world.write_watches_of(&[("Widget", &staged_chart(), keys)])?;
        let members = [("batch", "jobs"), ("", "secrets")].iter().chain(members);
        let rules: Vec<Value> = members.map(|(group, kind)| member_rule(group, kind)).collect();
        world.grant("staged", &rules)?;
        Ok(world)
    }

    /// Like `new`, with another chart: a folder of tests/fixtures/integration.
    pub fn of_chart(name: &str, chart: &str) -> Result<Self> {
        Self::new(name)?.use_chart(chart)
    }

    /// Adds the rights of [`member_rule`] on another kind of members.
    pub fn granted(self, group: &str, resource: &str) -> Result<Self> {
        self.grant(resource, &[member_rule(group, resource)])?;
        Ok(self)
    }

    /// Adds a kind `Gadget` of this world's group, for members.
    pub fn with_gadgets(self) -> Result<Self> {
        self.install_crd("Gadget")?;
        let group = self.group();
        self.granted(&group, "gadgets")
    }

    pub fn with(name: &str, setup: WorldSetup<'_>) -> Result<Self> {
        let control_plane = if setup.alone {
            Box::leak(Box::new(ControlPlane::builder().start()?))
        } else {
            ControlPlane::shared()
        };
        let world = World {
            control_plane,
            kubectl: control_plane.kubectl().create_namespace(name)?,
            name: name.to_owned(),
            dir: tempfile::tempdir()?,
            watch_keys: Vec::new(),
            cluster_scoped: setup.cluster_scoped,
        };
        copy_folder(&widget_chart(), &world.chart())?;
        if setup.crd {
            world.install_crd("Widget")?;
        }
        world.grant_project_rules(&setup)?;
        Ok(world)
    }

    pub fn group(&self) -> String {
        format!("{}.test", self.name)
    }

    /// The group of users with the rights of this world's operator.
    fn operators(&self) -> String {
        format!("{}:operators", self.name)
    }
}
