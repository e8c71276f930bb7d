//! A server that speaks as Azure's blobs do: Azurite, as `scripts/azurite` lays it under
//! `target/azurite`.

use crate::running::{Running, free_port};
use crate::workspace_root;
use std::path::{Path, PathBuf};
use std::process::Command;

const ACCOUNT: &str = "zinctests";
/// What requests are signed with, and must be nowhere but in the environment.
const SECRET: &str = "dlllcTNzMEt4LW9mLXRoZS10ZXN0cy04ZlIyLXRoYXQtaXMtbG9uZw==";
/// Makes a container, which the library cannot.
const MAKE: &str = r#"
const [port, account, key, container] = process.argv.slice(1);
const [date, version] = [new Date().toUTCString(), "2023-11-03"];
const path = `/${account}/${container}`;
const text = "PUT" + "\n".repeat(12) + `x-ms-date:${date}\nx-ms-version:${version}\n` +
    `/${account}${path}\nrestype:container`;
const hmac = require("crypto").createHmac("sha256", Buffer.from(key, "base64"));
const headers = { "x-ms-date": date, "x-ms-version": version, "Content-Length": 0,
    Authorization: `SharedKey ${account}:${hmac.update(text).digest("base64")}` };
require("http").request({ host: "127.0.0.1", port, method: "PUT", headers,
    path: `${path}?restype=container` }, (r) => process.exit(r.statusCode === 201 ? 0 : 1)).end();
"#;

/// A server on this machine, killed when it is dropped.
pub struct AzureServer {
    _running: Running,
    port: u16,
}

impl AzureServer {
    /// What is missing when the program is not there, for tests that [`needs`](crate::needs)
    /// cannot mark.
    #[must_use]
    pub fn missing() -> Option<&'static str> {
        (!program().is_file()).then_some("Azurite (scripts/azurite)")
    }

    /// Starts one with a container.
    ///
    /// # Panics
    /// It is not there, or does not start.
    #[must_use]
    pub fn start(folder: &Path, container: &str) -> Self {
        let port = free_port();
        let mut program = node(&[&program().to_string_lossy()]);
        program.args(["--blobPort", &port.to_string(), "--silent", "--skipApiVersionCheck"]);
        program.args(["--disableTelemetry", "--location"]).arg(folder);
        program.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{SECRET}"));
        let running = Running::start(&mut program, port);
        let make = ["-e", MAKE, "--", &port.to_string(), ACCOUNT, SECRET, container];
        assert!(node(&make).status().expect("node runs").success(), "there is no container");
        Self { _running: running, port }
    }

    /// Where it answers.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{ACCOUNT}", self.port)
    }

    /// What a program that uses it has in its environment.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, &'static str); 2] {
        [("AZURE_STORAGE_ACCOUNT", ACCOUNT), ("AZURE_STORAGE_KEY", SECRET)]
    }

    /// What must be nowhere but there.
    #[must_use]
    pub fn secret(&self) -> &'static str {
        SECRET
    }
}

fn program() -> PathBuf {
    workspace_root().join("target/azurite/node_modules/azurite/dist/src/blob/main.js")
}

fn node(args: &[&str]) -> Command {
    let mut node = Command::new("node");
    node.args(args);
    node
}
