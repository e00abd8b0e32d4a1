//! What `cargo metadata` says of the workspace, as far as the chores need it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Result;
use crate::cmd;

/// The name of the facade's package.
pub(crate) const FACADE: &str = "leasehold";

/// The workspace and what it depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) resolve: Resolve,
}

/// One package, of the workspace or not.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

/// A dependency as a manifest declares it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// `None`, `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// The folder, for a dependency inside the workspace.
    pub(crate) path: Option<PathBuf>,
}

/// A library, binary, test or example.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

/// Who depends on whom in the end.
#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

/// A package in the graph.
#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Edge>,
}

/// A dependency in the graph.
#[derive(Debug, Deserialize)]
pub(crate) struct Edge {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<EdgeKind>,
}

/// `None`, `dev` or `build`.
#[derive(Debug, Deserialize)]
pub(crate) struct EdgeKind {
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Asks cargo.
    pub(crate) fn load() -> Result<Self> {
        let text = cmd::read(&mut cmd::cargo([
            "metadata",
            "--format-version",
            "1",
            "--all-features",
        ]))?;
        serde_json::from_str(&text).map_err(|error| format!("cannot read the metadata: {error}"))
    }

    /// The packages of the workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The package of the workspace with this name.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// Every feature of the workspace's packages but the private ones, which begin with `_`, as `package/feature`.
    pub(crate) fn public_features(&self) -> Vec<String> {
        self.members().flat_map(Package::public_features).collect()
    }

    /// The same for one package.
    pub(crate) fn public_features_of(&self, name: &str) -> Vec<String> {
        self.member(name)
            .map(Package::public_features)
            .unwrap_or_default()
    }

    /// The folder of a package, relative to the root, such as `crates/core`.
    pub(crate) fn folder(&self, package: &Package) -> String {
        let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
        self.relative(folder)
    }

    /// A path relative to the root, with `/` between its parts.
    pub(crate) fn relative(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.workspace_root).unwrap_or(path);
        inside.to_string_lossy().replace('\\', "/")
    }

    /// The backends of this workspace: memory, and every folder of `backends/`.
    pub(crate) fn backends(&self) -> Vec<String> {
        let folders = self.members().filter_map(|package| {
            let folder = self.folder(package);
            Some(folder.strip_prefix("backends/")?.to_owned())
        });
        ["memory".to_owned()].into_iter().chain(folders).collect()
    }
}

impl Package {
    fn public_features(&self) -> Vec<String> {
        let public = self
            .features
            .keys()
            .filter(|feature| !feature.starts_with('_'));
        public
            .map(|feature| format!("{}/{feature}", self.name))
            .collect()
    }

    /// The names of its examples.
    pub(crate) fn examples(&self) -> impl Iterator<Item = &str> {
        self.targets
            .iter()
            .filter(|target| target.kind.iter().any(|kind| kind == "example"))
            .map(|target| target.name.as_str())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder, and the folders it depends on with the kind of each dependency.
    pub(crate) type Member<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

    /// Metadata of a workspace at `/w`.
    pub(crate) fn workspace(members: &[Member<'_>]) -> Metadata {
        let package = |(folder, needs): &Member<'_>| {
            let dependencies: Vec<_> = needs
                .iter()
                .map(|(on, kind)| serde_json::json!({"kind": kind, "path": format!("/w/{on}")}))
                .collect();
            serde_json::json!({
                "id": folder, "name": folder,
                "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": dependencies,
            })
        };
        let packages: Vec<_> = members.iter().map(package).collect();
        let ids: Vec<_> = members.iter().map(|(folder, _)| folder).collect();
        serde_json::from_value(serde_json::json!({
            "packages": packages, "workspace_members": ids,
            "workspace_root": "/w", "target_directory": "/w/target", "resolve": {"nodes": []},
        }))
        .unwrap()
    }

    #[test]
    fn backends_are_memory_and_the_folders() {
        let metadata = workspace(&[("crates/core", &[]), ("backends/redis", &[])]);
        assert_eq!(metadata.backends(), ["memory", "redis"]);
    }

    #[test]
    fn the_metadata_of_this_workspace_can_be_read() {
        let metadata = Metadata::load().unwrap();
        assert_eq!(metadata.folder(metadata.member("xtask").unwrap()), "xtask");
    }
}
