//! A large chart of our own: an umbrella over several web stacks, with many rules and dashboards.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

/// How often the web stack is there, each under an alias.
const STACKS: usize = 6;
const RULE_FILES: usize = 40;
const DASHBOARDS: usize = 25;

/// Writes the chart into a folder. `stack` is the folder of the chart of the middle size.
pub fn write(folder: &Path, stack: &Path) -> io::Result<()> {
    let mut chart = String::from("apiVersion: v2\nname: platform\nversion: 12.0.1\nappVersion: 3.1.0\ndependencies:\n");
    let mut values =
        String::from("global:\n  labels:\n    platform: main\nrules:\n  enabled: true\n  labels: {release: main}\n");
    for at in 0..STACKS {
        let _ = write!(
            chart,
            "  - name: webstack\n    alias: stack{at}\n    version: ~1.4.0\n    condition: stack{at}.enabled\n"
        );
        let _ = write!(
            values,
            "stack{at}:\n  enabled: true\n  fullnameOverride: stack-{at}\n  commonLabels: {{team: team-{at}}}\n  \
             components:\n    api:\n      replicas: {at}\n      env: {{SHARD: \"{at}\"}}\n"
        );
    }
    fs::create_dir_all(folder.join("templates/rules"))?;
    fs::create_dir_all(folder.join("dashboards"))?;
    fs::write(folder.join("Chart.yaml"), chart)?;
    fs::write(folder.join("values.yaml"), values)?;
    fs::write(folder.join("templates/_helpers.tpl"), HELPERS)?;
    fs::write(folder.join("templates/dashboards.yaml"), DASHBOARD_TEMPLATE)?;
    for at in 0..RULE_FILES {
        fs::write(folder.join(format!("templates/rules/group-{at}.yaml")), rules(at))?;
    }
    for at in 0..DASHBOARDS {
        fs::write(folder.join(format!("dashboards/board-{at}.json")), dashboard(at))?;
    }
    copy(stack, &folder.join("charts/webstack"))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

const HELPERS: &str = r#"{{- define "platform.labels" -}}
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.rules.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}
"#;

const DASHBOARD_TEMPLATE: &str = r#"{{- $files := .Files.Glob "dashboards/*.json" }}
{{- if $files }}
apiVersion: v1
kind: ConfigMapList
items:
{{- range $path, $_ := $files }}
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: {{ printf "%s-%s" $.Release.Name (base $path | trimSuffix ".json") | trunc 63 }}
    labels: {{- include "platform.labels" $ | nindent 6 }}
  data:
    {{ base $path }}: {{ $.Files.Get $path | toJson }}
{{- end }}
{{- end }}
"#;

/// One file of alerting rules, as generators of monitoring charts write them: much text, few actions, escaped braces.
fn rules(at: usize) -> String {
    let mut text = format!(
        "{{{{- if .Values.rules.enabled }}}}\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: \
         {{{{ printf \"%s-%s\" .Release.Name \"group-{at}\" | trunc 63 | trimSuffix \"-\" }}}}\n  namespace: {{{{ .Release.Namespace }}}}\n  \
         labels:\n    {{{{- include \"platform.labels\" . | nindent 4 }}}}\nspec:\n  groups:\n  - name: group-{at}\n    rules:\n"
    );
    for rule in 0..12 {
        let _ = write!(
            text,
            "{{{{- if not (dig \"disabled\" \"Rule{rule}\" false .Values.rules) }}}}\n    - alert: Group{at}Rule{rule}\n      annotations:\n        \
             description: 'Pod {{{{`{{{{`}}}} $labels.namespace {{{{`}}}}`}}}}/{{{{`{{{{`}}}} $labels.pod {{{{`}}}}`}}}} is at {{{{`{{{{`}}}} $value | humanize {{{{`}}}}`}}}} of its limit.'\n        \
             runbook: {{{{ printf \"https://runbooks.example.com/%s/%d\" .Chart.Name {rule} }}}}\n      \
             expr: sum by (namespace, pod) (rate(metric_{at}_{rule}_total{{job=\"job-{at}\"}}[5m])) / ignoring (code) group_left sum by (namespace, pod) (metric_{at}_limit) > 0.{rule}5\n      \
             for: {{{{ dig \"for\" \"15m\" .Values.rules }}}}\n      labels:\n        severity: {{{{ .Values.rules.severity | default \"warning\" }}}}\n{{{{- end }}}}\n"
        );
    }
    text + "{{- end }}\n"
}

fn dashboard(at: usize) -> String {
    let panels: Vec<_> = (0..24)
        .map(|panel| {
            serde_json::json!({
                "id": panel, "title": format!("Panel {panel} of board {at}"), "type": "timeseries",
                "gridPos": {"x": panel % 2 * 12, "y": panel / 2 * 8, "w": 12, "h": 8},
                "targets": [{
                    "refId": "A", "legendFormat": "{{namespace}}/{{pod}}",
                    "expr": format!("sum by (namespace, pod) (rate(metric_{at}_{panel}_total{{namespace=~\"$namespace\"}}[5m]))"),
                }],
                "fieldConfig": {"defaults": {"unit": "short", "min": 0}, "overrides": []},
            })
        })
        .collect();
    let board = serde_json::json!({"title": format!("Board {at}"), "uid": format!("board-{at}"), "panels": panels});
    serde_json::to_string_pretty(&board).unwrap_or_default()
}
