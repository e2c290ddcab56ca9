//! The definition of the state machine of big repairs: what the linter does not check. The package `tests` executes it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{assert_properties, resources};

fn definition() -> Value {
    resources()["BigRepair"]["Properties"]["Definition"].clone()
}

/// The machines of a definition: itself, and those of the maps in it.
fn machines(machine: &Value) -> Vec<Value> {
    let states = machine["States"].as_object().unwrap().values();
    let inner = states.filter_map(|state| state.get("ItemProcessor")).flat_map(machines);
    [machine.clone()].into_iter().chain(inner).collect()
}

/// The states that a state leads to.
fn leads_to(state: &Value) -> Vec<String> {
    let listed = |name: &str| state[name].as_array().cloned().unwrap_or_default();
    let nested = [listed("Choices"), listed("Catch")].concat();
    let all = [state["Next"].clone(), state["Default"].clone()].into_iter();
    let all = all.chain(nested.into_iter().map(|choice| choice["Next"].clone()));
    all.filter_map(|next| next.as_str().map(str::to_owned)).collect()
}

#[test]
fn every_state_is_reached_and_leads_to_states_that_exist() {
    let machines = machines(&definition());
    assert_eq!(machines.len(), 2);
    for machine in machines {
        let states = machine["States"].as_object().unwrap();
        let first = machine["StartAt"].as_str().unwrap().to_owned();
        let reached: BTreeSet<String> = states.values().flat_map(leads_to).chain([first]).collect();
        assert_eq!(reached, states.keys().cloned().collect::<BTreeSet<String>>());
    }
}

#[test]
fn every_call_is_repeated_with_back_off_and_waits_longer_than_the_function_runs() {
    let retry = json!([{
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 5,
        "MaxAttempts": 4,
        "BackoffRate": 3,
        "JitterStrategy": "FULL",
    }]);
    let runs = resources()["RepairJob"]["Properties"]["Timeout"].as_u64().unwrap();
    let mut calls = 0;
    for machine in machines(&definition()) {
        for (name, state) in machine["States"].as_object().unwrap().iter().filter(|(_, state)| state["Type"] == "Task")
        {
            calls += 1;
            assert_eq!(state["Retry"], retry, "{name}");
            let waits = state["TimeoutSeconds"].as_u64();
            assert!(name == "Store" || waits.is_some_and(|waits| waits > runs), "{name}");
        }
    }
    assert_eq!(calls, 5);
}

#[test]
fn an_alarm_starts_a_big_repair_only_if_a_parameter_says_so() {
    let resources = resources();
    for name in ["BigRepairRule", "BigRepairRuleRole"] {
        assert_eq!(resources[name]["Condition"], "StartsBigRepair");
    }
    let expected = json!({
        "EventPattern": {
            "source": ["aws.cloudwatch"],
            "detail-type": ["CloudWatch Alarm State Change"],
            "resources": [{"Fn::GetAtt": ["DriftUnresolved", "Arn"]}],
            "detail": {"state": {"value": ["ALARM"]}},
        },
    });
    assert_properties("BigRepairRule", &expected);
    let template: Value = serde_norway::from_str(super::TEMPLATE).unwrap();
    assert_eq!(template["Parameters"]["StartBigRepair"]["Default"], "no");
}
