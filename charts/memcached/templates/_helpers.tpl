{{/*
The chart's name, or what replaces it.
*/}}
{{- define "memcached.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/*
The name of the objects. At most 52 characters: the StatefulSet controller appends a hash for the label
controller-revision-hash, which may have 63.
*/}}
{{- define "memcached.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "memcached.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
What selects the pods. It must never change: a StatefulSet's selector is immutable.
*/}}
{{- define "memcached.selectorLabels" -}}
app.kubernetes.io/name: {{ include "memcached.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/*
The same as kubectl takes it: a=b,c=d.
*/}}
{{- define "memcached.selector" -}}
{{- $pairs := list -}}
{{- range $key, $value := include "memcached.selectorLabels" . | fromYaml -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end }}

{{- define "memcached.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "memcached.selectorLabels" . }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/component: cache
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "memcached.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "memcached.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end }}

{{/*
The servers as host:port, one per line. The names come from the headless Service, so they outlive a pod.
*/}}
{{- define "memcached.servers" -}}
{{- $name := include "memcached.fullname" . -}}
{{- range $i := until (int .Values.size) }}
{{- printf "%s-%d.%s.%s.svc:%d\n" $name $i $name $.Release.Namespace (int $.Values.service.port) }}
{{- end }}
{{- end }}
