"""The fields of what makes pods and protects them. How a line is read: see `reading`."""

WORKLOADS = """
io.k8s.api.apps.v1.Deployment: Pods of which so many are kept running, and replaced step by step.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec DeploymentSpec How many of which pods.
  status DeploymentStatus How far it is.

io.k8s.api.apps.v1.DeploymentSpec: How many of which pods.
  minReadySeconds integer Seconds that a pod must be ready to count.
  paused boolean Whether changes wait.
  progressDeadlineSeconds integer Seconds without progress that count as failure.
  replicas integer How many.
  revisionHistoryLimit integer Older revisions that are kept.
  selector* LabelSelector Its pods, by their labels.
  strategy DeploymentStrategy How pods are replaced.
  template* PodTemplateSpec The pods.

io.k8s.api.apps.v1.DeploymentStrategy: How pods are replaced.
  rollingUpdate RollingUpdateDeployment How many at a time.
  type string RollingUpdate or Recreate.

io.k8s.api.apps.v1.RollingUpdateDeployment: How many at a time.
  maxSurge intstr So many more than asked for, or a share.
  maxUnavailable intstr So many fewer than asked for, or a share.

io.k8s.api.apps.v1.DeploymentStatus: How far a Deployment is.
  availableReplicas integer Pods that have been ready for long enough.
  collisionCount integer Names that were taken.
  conditions [DeploymentCondition] key=type What is true of it.
  observedGeneration integer The generation that this is about.
  readyReplicas integer Pods that are ready.
  replicas integer Pods in all.
  terminatingReplicas integer Pods that are going.
  unavailableReplicas integer Pods that are missing yet.
  updatedReplicas integer Pods of the newest template.

io.k8s.api.apps.v1.DeploymentCondition: Something that is true of a Deployment, or not.
  lastTransitionTime time When it changed.
  lastUpdateTime time When it was told last.
  message string Why, for people.
  reason string Why, in a word.
  status* string True, False or Unknown.
  type* string What.

io.k8s.api.apps.v1.ReplicaSet: Pods of which so many are kept running.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec ReplicaSetSpec How many of which pods.
  status ReplicaSetStatus How far it is.

io.k8s.api.apps.v1.ReplicaSetSpec: How many of which pods.
  minReadySeconds integer Seconds that a pod must be ready to count.
  replicas integer How many.
  selector* LabelSelector Its pods, by their labels.
  template PodTemplateSpec The pods.

io.k8s.api.apps.v1.ReplicaSetStatus: How far a ReplicaSet is.
  availableReplicas integer Pods that have been ready for long enough.
  conditions [object] key=type What is true of it.
  fullyLabeledReplicas integer Pods with all labels of the template.
  observedGeneration integer The generation that this is about.
  readyReplicas integer Pods that are ready.
  replicas* integer Pods in all.
  terminatingReplicas integer Pods that are going.

io.k8s.api.batch.v1.Job: Pods that run until so many have succeeded.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec JobSpec How many of which pods.
  status JobStatus How far it is.

io.k8s.api.batch.v1.JobSpec: How many of which pods.
  activeDeadlineSeconds integer Seconds after which it is failed.
  backoffLimit integer Failures before it is failed.
  backoffLimitPerIndex integer The same, for each index.
  completionMode string NonIndexed or Indexed.
  completions integer Successes that are wanted.
  managedBy string Who takes care of it.
  manualSelector boolean Whether the selector is the user's.
  maxFailedIndexes integer Failed indexes before it is failed.
  parallelism integer Pods at a time.
  podFailurePolicy object What failures mean.
  podReplacementPolicy string When pods are replaced.
  selector LabelSelector Its pods; set by the API.
  successPolicy object What success means.
  suspend boolean Whether it waits.
  template* PodTemplateSpec The pods.
  ttlSecondsAfterFinished integer Seconds that it is kept after its end.

io.k8s.api.batch.v1.JobStatus: How far a Job is.
  active integer Pods that run.
  completedIndexes string Indexes that have succeeded.
  completionTime time When it was done.
  conditions [JobCondition] key=type What is true of it.
  failed integer Pods that failed.
  failedIndexes string Indexes that have failed.
  ready integer Pods that are ready.
  startTime time When it was taken on.
  succeeded integer Pods that succeeded.
  terminating integer Pods that are going.
  uncountedTerminatedPods object Pods whose end is not counted yet.

io.k8s.api.batch.v1.JobCondition: Something that is true of a Job, or not.
  lastProbeTime time When it was looked at.
  lastTransitionTime time When it changed.
  message string Why, for people.
  reason string Why, in a word.
  status* string True, False or Unknown.
  type* string What.

io.k8s.api.policy.v1.PodDisruptionBudget: How many of some pods may be away at a time.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec PodDisruptionBudgetSpec Which pods, and how many.
  status PodDisruptionBudgetStatus How many may go now.

io.k8s.api.policy.v1.PodDisruptionBudgetSpec: Which pods, and how many.
  maxUnavailable intstr So many may be away, or a share.
  minAvailable intstr So many must stay, or a share.
  selector LabelSelector The pods, by their labels.
  unhealthyPodEvictionPolicy string Whether pods that are not ready may always go.

io.k8s.api.policy.v1.PodDisruptionBudgetStatus: How many may go now.
  conditions [Condition] key=type What is true of it.
  currentHealthy* integer Pods that are ready.
  desiredHealthy* integer Pods that must be.
  disruptedPods object Pods that are going, and since when.
  disruptionsAllowed* integer Pods that may go now.
  expectedPods* integer Pods in all.
  observedGeneration integer The generation that this is about.

io.k8s.api.autoscaling.v1.Scale: How many, of whatever has replicas.
  apiVersion string The version of the kind.
  kind string The kind of the object.
  metadata ObjectMeta Name, labels and the like.
  spec ScaleSpec How many are wanted.
  status ScaleStatus How many there are.

io.k8s.api.autoscaling.v1.ScaleSpec: How many are wanted.
  replicas integer The number.

io.k8s.api.autoscaling.v1.ScaleStatus: How many there are.
  replicas* integer The number.
  selector string Its pods, by their labels.
"""
