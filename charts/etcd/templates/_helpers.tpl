{{/*
The name of the objects. At most 52 characters: the StatefulSet controller appends a hash for the label
controller-revision-hash, which may have 63.
*/}}
{{- define "etcd.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "etcd.version" -}}
{{- .Values.version | default .Chart.AppVersion -}}
{{- end }}

{{/*
What selects the servers' pods, and not those of Jobs. It must never change: a StatefulSet's selector is immutable.
*/}}
{{- define "etcd.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: database
{{- end }}

{{/*
The same as kubectl takes it: a=b,c=d.
*/}}
{{- define "etcd.selector" -}}
{{- $pairs := list -}}
{{- range $key, $value := include "etcd.selectorLabels" . | fromYaml -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end }}

{{- define "etcd.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ include "etcd.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "etcd.labels" -}}
{{ include "etcd.commonLabels" . }}
{{ include "etcd.selectorLabels" . }}
{{- end }}

{{- define "etcd.jobLabels" -}}
{{ include "etcd.commonLabels" . }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: job
{{- end }}

{{- define "etcd.image" -}}
image: {{ printf "%s:v%s" .Values.image.repository (include "etcd.version" .) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/*
Members that are needed.
*/}}
{{- define "etcd.quorum" -}}
{{- add (div (int .Values.size) 2) 1 -}}
{{- end }}

{{/*
How the members know each other: name=address, with commas. The names come from the headless Service, so they outlive a pod.
*/}}
{{- define "etcd.cluster" -}}
{{- $name := include "etcd.fullname" . -}}
{{- $members := list -}}
{{- range $i := until (int .Values.size) -}}
{{- $members = append $members (printf "%s-%d=http://%s-%d.%s-members.%s.svc:2380" $name $i $name $i $name $.Release.Namespace) -}}
{{- end -}}
{{- join "," $members -}}
{{- end }}

{{/*
What the Pod Security Standard "restricted" asks for. The images run as any user.
*/}}
{{- define "etcd.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
# Not at each start: a large volume has many files.
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "etcd.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{/*
The beginning of a Job's pod template: what all of them have in common.
*/}}
{{- define "etcd.jobPod" -}}
metadata:
  labels:
    {{- include "etcd.jobLabels" . | nindent 4 }}
    {{- with .Values.jobs.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
