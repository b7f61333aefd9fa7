{{/*
The name of the objects. At most 52 characters: the StatefulSet controller appends a hash for the label
controller-revision-hash, which may have 63.
*/}}
{{- define "sampledb.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "sampledb.version" -}}
{{- .Values.version | default .Chart.AppVersion -}}
{{- end }}

{{/*
What selects the servers' pods, and not those of Jobs. It must never change: a StatefulSet's selector is immutable.
*/}}
{{- define "sampledb.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: database
{{- end }}

{{/*
The same as kubectl takes it: a=b,c=d.
*/}}
{{- define "sampledb.selector" -}}
{{- $pairs := list -}}
{{- range $key, $value := include "sampledb.selectorLabels" . | fromYaml -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end }}

{{- define "sampledb.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ include "sampledb.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sampledb.labels" -}}
{{ include "sampledb.commonLabels" . }}
{{ include "sampledb.selectorLabels" . }}
{{- end }}

{{- define "sampledb.jobLabels" -}}
{{ include "sampledb.commonLabels" . }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: job
{{- end }}

{{- define "sampledb.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (include "sampledb.version" .) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/*
The image's own user, and what the Pod Security Standard "restricted" asks for.
*/}}
{{- define "sampledb.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 999
runAsGroup: 999
fsGroup: 999
# Not at each start: a large volume has many files.
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sampledb.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{/*
A Job's spec. It takes the release, the name of its script, the Secret that it signs in with, the host that it asks, and what it
mounts.
*/}}
{{- define "sampledb.job" -}}
{{- $name := include "sampledb.fullname" .release -}}
{{- $secret := .secret | default $name -}}
backoffLimit: {{ .backoffLimit | default 0 }}
template:
  metadata:
    labels:
      {{- include "sampledb.jobLabels" .release | nindent 6 }}
      {{- with .release.Values.jobs.podLabels }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  spec:
    restartPolicy: Never
    automountServiceAccountToken: false
    securityContext:
      {{- include "sampledb.podSecurityContext" .release | nindent 6 }}
    containers:
      - name: {{ .script }}
        {{- include "sampledb.image" .release | nindent 8 }}
        command:
          - bash
          - -c
          - |
            {{- .release.Files.Get (printf "scripts/%s.sh" .script) | trim | nindent 12 }}
        env:
          - name: PGHOST
            value: {{ .host | default $name }}
          - name: PGUSER
            value: postgres
          - name: PGPASSWORD
            valueFrom:
              secretKeyRef:
                name: {{ $secret }}
                key: admin-password
          - name: APP_USER
            value: {{ .release.Values.auth.username }}
          - name: APP_DATABASE
            value: {{ .release.Values.auth.database }}
          {{- with .env }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        {{- with .release.Values.jobs.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          {{- include "sampledb.securityContext" .release | nindent 10 }}
        volumeMounts:
          - name: scratch
            mountPath: /tmp
          - name: scratch
            mountPath: /var/run/postgresql
          {{- with .mounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
    volumes:
      - name: scratch
        emptyDir: {}
      {{- with .volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
