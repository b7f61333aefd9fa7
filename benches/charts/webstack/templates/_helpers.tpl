{{- define "webstack.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "webstack.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "webstack.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "webstack.selectorLabels" -}}
app.kubernetes.io/name: {{ include "webstack.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "webstack.labels" -}}
helm.sh/chart: {{ include "webstack.chart" . }}
{{ include "webstack.selectorLabels" . }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with merge (dict) .Values.commonLabels .Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "webstack.annotations" -}}
{{- with .Values.commonAnnotations }}
{{- tpl (toYaml .) $ }}
{{- end }}
{{- end -}}

{{- define "webstack.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- printf "%s/%s/%s:%s" $registry .Values.image.repository .component (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "webstack.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "webstack.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "webstack.metadata" -}}
name: {{ include "webstack.fullname" .root }}{{ with .component }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "webstack.labels" .root | nindent 2 }}
  {{- with .component }}
  app.kubernetes.io/component: {{ . }}
  {{- end }}
{{- with include "webstack.annotations" .root }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}
