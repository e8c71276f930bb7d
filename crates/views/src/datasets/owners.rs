//! The space and quotas of users, groups and projects: properties, and tables by owner.

use super::permissions::Accounts;
use crate::{HostInfo, json};
use engine::files::{QuotaKind, SpaceKind, SpaceRow};
use engine::properties::{OwnerFigure, OwnerQuota, parse_owner};
use engine::{DatasetKind, StoredValue, parse_value};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use term::Table;
use term::human::{nicebytes, nicenum};

/// Why a limit cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLimit {
    /// It is a figure that is counted.
    Readonly,
    /// This machine does not know the owner.
    Owner,
    /// It is not a size, and not `none`.
    Value,
}

/// Reads a quota that is to be set for an owner; `None` when the property is another.
///
/// # Errors
/// No such user, group or size.
pub fn quota(
    accounts: &dyn Accounts,
    property: &str,
    value: &str,
) -> Result<Option<OwnerQuota>, NoLimit> {
    let Some((kind, what, owner)) = parse_owner(property) else { return Ok(None) };
    let what = match what {
        OwnerFigure::Quota => QuotaKind::Space,
        OwnerFigure::ObjectQuota => QuotaKind::Objects,
        OwnerFigure::Used | OwnerFigure::Objects => return Err(NoLimit::Readonly),
    };
    let number = id_of(accounts, kind, owner).or_else(|| owner.parse::<u32>().ok().map(u64::from));
    let owner = number.ok_or(NoLimit::Owner)?;
    // A reservation is a size, or none, too.
    match parse_value("reservation", value, DatasetKind::Filesystem, false) {
        Ok(StoredValue::Number(value)) => Ok(Some(OwnerQuota { kind, what, owner, value })),
        _ => Err(NoLimit::Value),
    }
}

/// The number of an owner on this machine, by its name.
pub fn id_of(accounts: &dyn Accounts, kind: SpaceKind, name: &str) -> Option<u64> {
    match kind {
        SpaceKind::User => accounts.user_id(name),
        SpaceKind::Group => accounts.group_id(name),
        SpaceKind::Project => None,
    }
}

/// The value for people; `None` when `name` is another property.
#[must_use]
pub fn pretty(name: &str, value: u64) -> Option<String> {
    let (_, what, _) = parse_owner(name)?;
    Some(match (what, value) {
        (OwnerFigure::Quota | OwnerFigure::ObjectQuota, 0) => "none".to_owned(),
        (OwnerFigure::Used | OwnerFigure::Quota, n) => nicebytes(n),
        (OwnerFigure::Objects | OwnerFigure::ObjectQuota, n) => nicenum(n),
    })
}

/// Columns by name.
pub const FIELDS: [(&str, Field); 6] = [
    ("type", Field::Type),
    ("name", Field::Name),
    ("used", Field::Used),
    ("quota", Field::Quota),
    ("objused", Field::Objects),
    ("objquota", Field::ObjectQuota),
];

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// The kind of owner.
    Type,
    /// Its name.
    Name,
    /// Bytes.
    Used,
    /// Bytes it may have.
    Quota,
    /// Objects.
    Objects,
    /// Objects it may have.
    ObjectQuota,
}

/// The kind of an owner, in OpenZFS's words.
#[must_use]
pub fn type_of(kind: SpaceKind, row: &SpaceRow) -> &'static str {
    match (kind, row.domain.is_some()) {
        (SpaceKind::User, false) => "POSIX User",
        (SpaceKind::User, true) => "SMB User",
        (SpaceKind::Group, false) => "POSIX Group",
        (SpaceKind::Group, true) => "SMB Group",
        (SpaceKind::Project, _) => "Project",
    }
}

/// The name of an owner on this machine.
fn name_of(host: &dyn HostInfo, kind: SpaceKind, id: u64) -> Option<&str> {
    match kind {
        SpaceKind::User => host.user_name(id),
        SpaceKind::Group => host.group_name(id),
        SpaceKind::Project => None,
    }
}

/// The owners of one kind in a file system.
pub struct Owners<'a> {
    /// For names and times.
    pub host_info: &'a dyn HostInfo,
    /// The kind of owners.
    pub kind: SpaceKind,
    /// Numbers, and no names.
    pub is_numeric: bool,
    /// Exact numbers.
    pub is_parsable: bool,
}

impl Owners<'_> {
    /// A table of these columns.
    #[must_use]
    pub fn table(&self, rows: &[SpaceRow], fields: &[Field], script: bool) -> Table {
        let names: Vec<String> = fields.iter().map(|f| heading(*f)).collect();
        let headings: Vec<&str> = names.iter().map(String::as_str).collect();
        let right: Vec<bool> =
            fields.iter().map(|f| !matches!(f, Field::Type | Field::Name)).collect();
        let mut table = Table::new(&headings, &right, script);
        // Old pools do not count objects.
        let counted = rows.iter().any(|r| r.objects.is_some());
        for row in rows {
            let cell = |f: &Field| match f {
                Field::Objects | Field::ObjectQuota if !counted => "-".to_owned(),
                f => self.cell(row, *f),
            };
            table.row(fields.iter().map(cell).collect());
        }
        table
    }

    /// The rows as JSON, below the name of the dataset.
    #[must_use]
    pub fn json(&self, dataset: &str, rows: &[SpaceRow], int: bool) -> Value {
        let number = |n: Option<u64>| n.map_or(Value::Null, |n| json::number(n, int));
        let row = |r: &SpaceRow| {
            json!({
                "type": type_of(self.kind, r),
                "name": self.name(r),
                "id": r.id_text(),
                "used": number(r.used),
                "quota": number(r.quota),
                "objused": number(r.objects),
                "objquota": number(r.object_quota),
            })
        };
        let verb = match self.kind {
            SpaceKind::User => "zfs userspace",
            SpaceKind::Group => "zfs groupspace",
            SpaceKind::Project => "zfs projectspace",
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        let content = Map::from_iter([(dataset.to_owned(), Value::Array(rows))]);
        json::document(verb, "datasets", content)
    }

    fn name(&self, row: &SpaceRow) -> String {
        let known = name_of(self.host_info, self.kind, row.id);
        match known.filter(|_| !self.is_numeric && row.domain.is_none()) {
            Some(name) => name.to_owned(),
            None => row.id_text(),
        }
    }

    fn cell(&self, row: &SpaceRow, field: Field) -> String {
        let none = |n: u64, nice: fn(u64) -> String| match (n, self.is_parsable) {
            (n, true) => n.to_string(),
            (0, false) => "none".to_owned(),
            (n, false) => nice(n),
        };
        match field {
            Field::Type => type_of(self.kind, row).to_owned(),
            Field::Name => self.name(row),
            Field::Used if self.is_parsable => row.used.unwrap_or(0).to_string(),
            Field::Used => nicebytes(row.used.unwrap_or(0)),
            Field::Quota => none(row.quota.unwrap_or(0), nicebytes),
            Field::ObjectQuota => none(row.object_quota.unwrap_or(0), nicenum),
            Field::Objects if self.is_parsable => row.objects.unwrap_or(0).to_string(),
            Field::Objects => nicenum(row.objects.unwrap_or(0)),
        }
    }

    /// The order of two rows: by these columns, small ones first, then by these, large ones first.
    #[must_use]
    pub fn compare(
        &self,
        (ascending, descending): (&[Field], &[Field]),
        a: &SpaceRow,
        b: &SpaceRow,
    ) -> Ordering {
        let by = |field: &Field| match field {
            Field::Type => type_of(self.kind, a).cmp(type_of(self.kind, b)),
            Field::Name if self.is_numeric => (&a.domain, a.id).cmp(&(&b.domain, b.id)),
            Field::Name => self.name(a).cmp(&self.name(b)),
            Field::Used => a.used.cmp(&b.used),
            Field::Quota => a.quota.cmp(&b.quota),
            Field::Objects => a.objects.cmp(&b.objects),
            Field::ObjectQuota => a.object_quota.cmp(&b.object_quota),
        };
        let up = ascending.iter().map(&by);
        let down = descending.iter().map(|f| by(f).reverse());
        let usual = [Field::Type, Field::Name];
        let order = up.chain(down).chain(usual.iter().map(&by));
        order.fold(Ordering::Equal, Ordering::then)
    }
}

fn heading(field: Field) -> String {
    let found = FIELDS.iter().find(|(_, f)| *f == field);
    found.map_or_else(String::new, |(name, _)| name.to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_of_nothing_is_none() {
        assert_eq!(pretty("groupquota@1", 0).as_deref(), Some("none"));
        assert_eq!(pretty("groupused@1", 0).as_deref(), Some("0B"));
        assert_eq!(pretty("userobjused@1", 5).as_deref(), Some("5"));
        assert_eq!(pretty("quota", 5), None);
    }
}
