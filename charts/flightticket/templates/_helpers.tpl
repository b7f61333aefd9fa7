{{/*
The name of the objects. At most 52 characters: those of Jobs have an ending of their own, and become labels of pods.
*/}}
{{- define "flightticket.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "flightticket.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: ticket
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/*
What the agency knows the booking by: the same for each try and each change, so that nothing is booked twice.
*/}}
{{- define "flightticket.reference" -}}
{{- printf "%s-%s" .Release.Namespace .Release.Name -}}
{{- end }}

{{/*
A Job's spec. It takes the release and the method of its request.
*/}}
{{- define "flightticket.job" -}}
backoffLimit: {{ int .release.Values.backoffLimit }}
template:
  metadata:
    labels:
      {{- include "flightticket.labels" .release | nindent 6 }}
  spec:
    restartPolicy: Never
    automountServiceAccountToken: false
    securityContext:
      runAsNonRoot: true
      runAsUser: 100
      runAsGroup: 101
      seccompProfile:
        type: RuntimeDefault
    containers:
      - name: agency
        {{- with .release.Values.image }}
        image: {{ printf "%s:%s" .repository .tag | quote }}
        imagePullPolicy: {{ .pullPolicy }}
        {{- end }}
        command:
          - sh
          - -euc
          - |
            echo "{{ .method }} $REFERENCE: $BOOKING"
            if [ -n "$AGENCY" ]; then
              curl --fail-with-body --silent --show-error --max-time 30 --request {{ .method }} \
                --header "Content-Type: application/json" --data "$BOOKING" "$AGENCY/bookings/$REFERENCE"
            fi
        env:
          - name: AGENCY
            value: {{ .release.Values.agency.url | quote }}
        envFrom:
          - configMapRef:
              name: {{ include "flightticket.fullname" .release }}
        {{- with .release.Values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop:
              - ALL
{{- end }}
