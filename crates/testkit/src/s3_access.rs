//! What clients of the servers of tests that speak S3 need, whichever program serves.

/// What requests are signed with.
pub(crate) const KEY: &str = "zinc-tests";
/// What must be nowhere but in the environment.
pub(crate) const SECRET: &str = "vYq3s0Kx-of-the-tests-8fR2";

/// Where a server answers on this machine, and to whom.
pub struct S3Access {
    pub(crate) port: u16,
}

impl S3Access {
    /// Where it answers.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a program that uses it has in its environment.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, &'static str); 3] {
        [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_REGION", "us-east-1")]
    }

    /// What must be nowhere but there.
    #[must_use]
    pub fn secret(&self) -> &'static str {
        SECRET
    }
}
