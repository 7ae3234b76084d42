//! The rule files that come with the program, in the order in which they are tried: the particular before the general.

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../rules/", $name)))),*]
    };
}

/// File name and text.
pub(crate) const FILES: &[(&str, &str)] = files![
    "roles.toml",
    "kubelet.toml",
    "docker.toml",
    "containerd.toml",
    "shim.toml",
    "runc.toml",
    "crio.toml",
    "cni.toml",
    "storage.toml",
    "kubernetes.toml",
    "grpc.toml",
    "ttrpc.toml",
    "http.toml",
    "system.toml",
    "library-runtime.toml",
    "known-issues-containerd.toml",
    "known-issues-docker.toml",
    "known-issues-system.toml",
    "known-issues-kubernetes.toml",
    "known-issues-crio.toml",
    "known-issues-network.toml",
    "known-issues-library.toml",
];
