//! A pool in `zpool list`: its line, and with `-v` those of its vdevs; or the same as JSON.

use crate::pools::{Column, Row, dash, section_rows, vdevs_json};
use crate::{json, pool_properties};
use engine::pools::{PoolFacts, PoolProperty, Section, Status, VdevTreeView};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What is listed of a pool: lines, or JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ListedPool {
    /// Its name.
    pub name: String,
    /// The lines.
    pub rows: Vec<Row>,
    /// The JSON; null where lines were wanted.
    pub value: Value,
}

/// How pools are listed.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// The columns.
    pub columns: &'a [Column],
    /// With vdevs.
    pub with_vdevs: bool,
    /// Exact numbers.
    pub parsable: bool,
    /// Numbers in JSON are numbers.
    pub json_int: bool,
    /// JSON, and no lines.
    pub as_json: bool,
}

impl Listing<'_> {
    /// A pool that is open. `is_exported`: it is healthy and not in use, so that any system may
    /// import it, which its health says.
    #[must_use]
    pub fn open(
        &self,
        facts: &PoolFacts,
        properties: &[PoolProperty],
        view: &VdevTreeView,
        is_exported: bool,
    ) -> ListedPool {
        let mut out = ListedPool { name: facts.name.clone(), ..ListedPool::default() };
        if self.as_json {
            let mut map = json::pool(facts, self.json_int);
            map.insert("properties".to_owned(), self.properties(properties));
            if self.with_vdevs {
                let all = Section::ALL.into_iter().flat_map(|section| view.section(section));
                let vdevs = vdevs_json(self.columns, all, self.parsable, self.json_int);
                map.insert("vdevs".to_owned(), vdevs);
            }
            out.value = Value::Object(map);
            return out;
        }
        let cell = |c: &Column| match c.name.as_str() {
            "name" => facts.name.clone(),
            "health" if is_exported => "EXPORTED".to_owned(),
            name => {
                let property = properties.iter().find(|p| p.name == name);
                property.map_or_else(dash, |p| pool_properties::text(p, self.parsable))
            }
        };
        out.rows.push(Row { indent: 0, cells: self.columns.iter().map(cell).collect() });
        self.add_vdevs(&mut out.rows, view);
        out
    }

    /// A pool that has too few devices to be opened.
    #[must_use]
    pub fn closed(&self, status: &Status) -> ListedPool {
        let cell = |c: &Column| match c.name.as_str() {
            "name" => status.pool.clone(),
            "health" => status.health.clone(),
            _ => dash(),
        };
        let mut rows = vec![Row { indent: 0, cells: self.columns.iter().map(cell).collect() }];
        self.add_vdevs(&mut rows, &status.vdevs);
        let value = json!({ "name": status.pool, "type": "POOL", "state": status.health });
        ListedPool { name: status.pool.clone(), rows, value }
    }

    fn add_vdevs(&self, rows: &mut Vec<Row>, view: &VdevTreeView) {
        if self.with_vdevs {
            for section in Section::ALL {
                section_rows(rows, self.columns, section, view.section(section), self.parsable);
            }
        }
    }

    fn properties(&self, properties: &[PoolProperty]) -> Value {
        let of = |c: &Column| properties.iter().find(|p| p.name == c.name);
        let (parsable, json_int) = (self.parsable, self.json_int);
        let style = pool_properties::Style { parsable, json_int };
        let value = |p: &PoolProperty| (p.name.clone(), pool_properties::value(p, style));
        Value::Object(self.columns.iter().filter_map(of).map(value).collect())
    }
}
