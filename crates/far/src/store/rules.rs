//! Rules of a bucket by which objects vanish, as S3 and Google write them down: its lifecycle.
//!
//! They are looked at when a disk is made, as far as the credentials may read them. Only what is
//! certain counts: a rule that is enabled, is for names of the disk and for all objects of these
//! names, and deletes or archives them. One for certain tags is for none of ours. What Google
//! archives is read as before.

/// Where objects are kept that are not read without an order to bring them back.
const ARCHIVES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// What is between the first pair of these tags.
fn within<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once(&format!("</{tag}>"))?.0)
}

/// What a lifecycle does to objects below a prefix: a clause, or `None`.
pub(super) fn harm(lifecycle: &str, prefix: &str) -> Option<String> {
    let own = format!("{prefix}/");
    let rules = lifecycle.split("<Rule>").skip(1);
    rules.filter_map(|rule| rule.split_once("</Rule>")).find_map(|(rule, _)| {
        let of = within(rule, "Prefix").unwrap_or_default();
        let is_for_us = own.starts_with(of) || of.starts_with(&own);
        if within(rule, "Status") != Some("Enabled") || rule.contains("<Tag>") || !is_for_us {
            return None;
        }
        let expiration = within(rule, "Expiration").unwrap_or_default();
        let expires = ["Days", "Date"].iter().any(|when| within(expiration, when).is_some());
        let class = within(rule, "Transition").and_then(|to| within(to, "StorageClass"));
        let does = match class {
            _ if expires => "deletes objects after some time",
            Some(class) if ARCHIVES.contains(&class) => "archives objects, which then are not read",
            _ => return None,
        };
        let name = within(rule, "ID").map_or(String::new(), |id| format!(" {id:?}"));
        Some(format!("the lifecycle rule{name} of the bucket {does}"))
    })
}

/// Conditions of Google that no object of a disk meets, or not every one: it is the only version of
/// its name, has no time of its own, and is made from now on.
const NOT_OURS: [&str; 7] = [
    "CreatedBefore",
    "CustomTimeBefore",
    "DaysSinceCustomTime",
    "DaysSinceNoncurrentTime",
    "MatchesSuffix",
    "NoncurrentTimeBefore",
    "NumberOfNewerVersions",
];

/// What a lifecycle of Google's does to objects below a prefix: a clause, or `None`.
pub(super) fn harm_of_google(lifecycle: &str, prefix: &str) -> Option<String> {
    let own = format!("{prefix}/");
    let rules = lifecycle.split("<Rule>").skip(1);
    let mut rules = rules.filter_map(|rule| Some(rule.split_once("</Rule>")?.0));
    let all = |rule: &str, tag: &str| -> Vec<String> {
        let begin = format!("<{tag}>");
        let parts = rule.split(&begin).skip(1);
        parts.filter_map(|part| Some(part.split_once("</")?.0.to_owned())).collect()
    };
    let is_harm = |rule: &str| {
        let deletes = within(rule, "Action").is_some_and(|action| action.contains("<Delete"));
        let of = all(rule, "MatchesPrefix");
        let is_for_us =
            of.is_empty() || of.iter().any(|of| own.starts_with(of) || of.starts_with(&own));
        let classes = all(rule, "MatchesStorageClass");
        let is_of_class = classes.is_empty() || classes.iter().any(|class| class == "STANDARD");
        let is_live = within(rule, "IsLive") != Some("false");
        let is_other = NOT_OURS.iter().any(|tag| within(rule, tag).is_some());
        deletes && is_for_us && is_of_class && is_live && !is_other
    };
    let of_age = |rule: &str| match within(rule, "Age") {
        Some(days) => format!("a lifecycle rule of the bucket deletes objects after {days} days"),
        None => "a lifecycle rule of the bucket deletes objects".to_owned(),
    };
    rules.find(|rule| is_harm(rule)).map(of_age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_of_google_counts_that_deletes_objects_of_the_disk() {
        const DELETE: &str = "<Action><Delete/></Action>";
        let of = |action: &str, conditions: &str| {
            let rule = format!("<Rule>{action}<Condition>{conditions}</Condition></Rule>");
            let other = "<Rule><Action><AbortIncompleteMultipartUpload/></Action><Condition>\
                         <Age>7</Age></Condition></Rule>";
            let text = format!("<LifecycleConfiguration>{other}{rule}</LifecycleConfiguration>");
            harm_of_google(&text, "pools/tank")
        };
        let prefix = |prefix: &str| format!("<MatchesPrefix>{prefix}</MatchesPrefix>");
        let found = of(DELETE, "<Age>30</Age>").unwrap();
        assert!(found.contains("deletes objects after 30 days"), "{found}");
        for ours in ["pools", "pools/tank/", "pools/tank/log/"] {
            let both = format!("<Age>1</Age>{}{}", prefix("other/"), prefix(ours));
            assert!(of(DELETE, &both).is_some(), "{ours}");
        }
        for other in ["pools/tank2", "logs/"] {
            assert_eq!(of(DELETE, &format!("<Age>1</Age>{}", prefix(other))), None, "{other}");
        }
        assert!(of(DELETE, "<IsLive>true</IsLive>").is_some());
        for harmless in [
            "<Age>1</Age><IsLive>false</IsLive>",
            "<NumberOfNewerVersions>3</NumberOfNewerVersions>",
            "<Age>1</Age><MatchesStorageClass>NEARLINE</MatchesStorageClass>",
            "<Age>1</Age><MatchesSuffix>.tmp</MatchesSuffix>",
        ] {
            assert_eq!(of(DELETE, harmless), None, "{harmless}");
        }
        let archive = "<Action><SetStorageClass>ARCHIVE</SetStorageClass></Action>";
        assert_eq!(of(archive, "<Age>1</Age>"), None);
        assert_eq!(harm_of_google("<LifecycleConfiguration/>", "pools/tank"), None);
    }

    fn rule(status: &str, filter: &str, action: &str) -> String {
        format!("<Rule><ID>r</ID><Status>{status}</Status>{filter}{action}</Rule>")
    }

    #[test]
    fn a_rule_counts_that_removes_objects_of_the_disk() {
        const DAYS: &str = "<Expiration><Days>30</Days></Expiration>";
        let of = |rules: &[String]| {
            let all = rules.concat();
            let text = format!("<LifecycleConfiguration>{all}</LifecycleConfiguration>");
            harm(&text, "pools/tank")
        };
        let filter = |prefix: &str| format!("<Filter><Prefix>{prefix}</Prefix></Filter>");
        for prefix in ["", "pools", "pools/tank/", "pools/tank/log/"] {
            let found = of(&[rule("Enabled", &filter(prefix), DAYS)]).unwrap();
            assert!(found.contains("\"r\"") && found.contains("deletes"), "{found}");
            assert_eq!(of(&[rule("Disabled", &filter(prefix), DAYS)]), None);
        }
        for prefix in ["pools/tank2", "logs/", "pools/tan/"] {
            assert_eq!(of(&[rule("Enabled", &filter(prefix), DAYS)]), None, "{prefix}");
        }
        let tagged = "<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>";
        assert_eq!(of(&[rule("Enabled", tagged, DAYS)]), None);
        let to = |class: &str| {
            format!("<Transition><Days>1</Days><StorageClass>{class}</StorageClass></Transition>")
        };
        assert_eq!(of(&[rule("Enabled", "", &to("STANDARD_IA"))]), None);
        let archived = of(&[rule("Enabled", "", &to("GLACIER"))]).unwrap();
        assert!(archived.contains("archives"), "{archived}");
        let harmless = [
            "<NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays>\
             </NoncurrentVersionExpiration>",
            "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
            "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>\
             </AbortIncompleteMultipartUpload>",
        ];
        let all: Vec<String> = harmless.iter().map(|action| rule("Enabled", "", action)).collect();
        assert_eq!(of(&all), None);
        let (first, last) = (rule("Enabled", "", harmless[0]), rule("Enabled", "", DAYS));
        assert!(of(&[first, last]).is_some());
        assert_eq!(harm("<html>not found</html>", "pools/tank"), None);
    }
}
