//! `make cluster`: the control plane alone, for operators of one's own.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::support::ControlPlane;

/// Where the administrator's kubeconfig lies, so that it can be written down before the cluster is there.
const KUBECONFIG: &str = "target/cluster.kubeconfig";

/// Starts it, and never returns.
pub fn stay() -> Result<()> {
    println!("Starting etcd, kube-apiserver, controller manager, scheduler and kwok (about 10 s) ...");
    let control_plane = ControlPlane::builder().pods(true).start()?;
    let kubeconfig = std::path::absolute(KUBECONFIG)?;
    fs::create_dir_all(kubeconfig.parent().unwrap_or(Path::new(".")))?;
    fs::copy(control_plane.kubeconfig(), &kubeconfig).with_context(|| kubeconfig.display().to_string())?;
    let kubectl = control_plane.kubectl().command();
    let folder = Path::new(kubectl.get_program()).parent().context("kubectl")?;
    println!("A Kubernetes cluster with one node runs until Ctrl-C; nothing of it stays. In another terminal:\n");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!(
        "  export PATH=\"$PATH:{}\"    # if there is no kubectl yet\n",
        folder.display()
    );
    println!("No container runs in it: kwok says of each pod that it is ready, and of each Job's pod that it is done.");
    loop {
        std::thread::park();
    }
}
