//! FlightTicket: work outside the cluster that hooks do, once each.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{System, TICKET};
use crate::support::eventually;
use crate::world::fields::{ensure_contains, uid};
use crate::world::{SOON, any_fields, crd};

fn ticket(from: &str, to: &str, number: i64) -> Value {
    json!({"from": from, "to": to, "number": number})
}

#[test]
fn a_ticket_is_booked_after_it_is_made_and_cancelled_before_it_goes() -> Result<()> {
    let system = System::new("ticket-life", TICKET)?;
    let world = &system.world;
    system.install("holiday", ticket("Mumbai", "London", 2))?;
    let texts = [
        ("/booking", json!("Booked")),
        ("/reference", json!("ticket-life-holiday")),
    ];
    let holiday = system.await_status("holiday", &texts)?;
    ensure!(holiday["status"]["bookedAt"].is_string(), "{holiday}");
    let booked = world.expect("job", "holiday-flightticket-book")?;
    ensure!(booked["status"]["succeeded"] == 1, "{booked}");
    let booking = &world.expect("configmap", "holiday-flightticket")?["data"]["BOOKING"];
    ensure!(*booking == r#"{"from":"Mumbai","seats":2,"to":"London"}"#, "{booking}");
    // Under its short name, as people write it.
    ensure_contains(
        &world.run(["get", &format!("ft.{}", world.group())])?,
        &["Mumbai", "London"],
    )
    .or_else(|_| ensure_contains(&world.run(["get", &system.resource()])?, &["Mumbai", "London"]))?;

    // The booking is changed, and nothing else recreates it.
    system.update("holiday", json!({"number": 3}))?;
    let again = world.expect("job", "holiday-flightticket-book")?;
    ensure!(uid(&again) != uid(&booked));
    world.patch(
        "configmap",
        "holiday-flightticket",
        &json!({"data": {"BOOKING": "by hand"}}),
    )?;
    world.await_field(
        "configmap",
        "holiday-flightticket",
        "/data/BOOKING",
        r#"{"from":"Mumbai","seats":3,"to":"London"}"#,
    )?;
    world.await_quiet(&system.operator)?;
    ensure!(
        uid(&world.expect("job", "holiday-flightticket-book")?) == uid(&again),
        "booked twice"
    );

    let start = world.mark()?;
    system.delete("holiday")?;
    let cancelled = system.writes(start, "jobs", "holiday-flightticket-cancel")?;
    ensure!(cancelled.iter().any(|request| request.verb == "patch"), "{cancelled}");
    let order = world.all_requests(&system.operator, start)?.writes();
    let at = |name: &str, verb: &str| {
        order
            .iter()
            .position(|request| request.name == name && request.verb == verb)
    };
    let (cancelled, gone) = (
        at("holiday-flightticket-cancel", "patch"),
        at("holiday-flightticket", "delete"),
    );
    ensure!(cancelled.is_some() && cancelled < gone, "{order}");
    ensure!(world.labelled("jobs,configmaps,secrets")?.is_empty());
    system.end()
}

#[test]
fn an_invalid_ticket_is_refused_with_a_reason() -> Result<()> {
    let system = System::new("ticket-refused", TICKET)?;
    for (spec, reason) in [
        (ticket("Mumbai", "London", 11), "a ticket is for 1 to 10 seats"),
        (ticket("Mumbai", "London", 0), "a ticket is for 1 to 10 seats"),
        (ticket("", "London", 1), "say where the flight begins"),
        (ticket("Mumbai", " ", 1), "say where the flight ends"),
        (ticket("Mumbai", "Mumbai", 1), "from and to are the same place"),
        (json!({"from": "Mumbai"}), "spec.to: Required value"),
    ] {
        ensure_contains(&system.refused("none", spec)?, &[reason])?;
    }
    system.install("seat", json!({"from": "Mumbai", "to": "London"}))?;
    ensure!(system.live("seat")?["spec"]["number"] == 1);
    system.end()
}

/// Many begin with a CRD that says nothing but names: no schema, no subresources.
#[test]
fn a_bare_crd_does_as_well() -> Result<()> {
    let mut bare = crd("flights.com", TICKET);
    bare["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = any_fields();
    let system = System::with("ticket-bare", TICKET, bare, &[])?;
    let world = &system.world;
    system.apply("holiday", ticket("Mumbai", "London", 2))?;
    system.await_event("holiday", "Ready", &["1 member"])?;
    world.expect("job", "holiday-flightticket-book")?;
    // The chart's schema is the one that refuses.
    system.apply("none", ticket("", "London", 11))?;
    system.await_event("none", "ValuesInvalid", &["/from", "/number"])?;
    world.absent("job", ["none-flightticket-book"])?;

    let start = world.mark()?;
    system.delete("holiday")?;
    ensure!(!system.writes(start, "jobs", "holiday-flightticket-cancel")?.is_empty());
    system.delete("none")?;
    eventually("nothing is left", SOON, || {
        let left = world.labelled("jobs,configmaps")?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(Some(()))
    })?;
    system.end()
}
