"""What is said of the fields of what makes pods and protects them. How a line is read: see `descriptions`."""

WORKLOADS = """
Deployment: Pods of which so many are kept running, and replaced step by step.
  spec How many of which pods.
  status How far it is.

DeploymentSpec: How many of which pods.
  minReadySeconds Seconds that a pod must be ready to count.
  paused Whether changes wait.
  progressDeadlineSeconds Seconds without progress that count as failure.
  replicas How many.
  revisionHistoryLimit Older revisions that are kept.
  selector Its pods, by their labels.
  strategy How pods are replaced.
  template The pods.

DeploymentStrategy: How pods are replaced.
  rollingUpdate How many at a time.
  type RollingUpdate or Recreate.

RollingUpdateDeployment: How many at a time.
  maxSurge So many more than asked for, or a share.
  maxUnavailable So many fewer than asked for, or a share.

DeploymentStatus: How far a Deployment is.
  availableReplicas Pods that have been ready for long enough.
  collisionCount Names that were taken.
  conditions What is true of it.
  observedGeneration The generation that this is about.
  readyReplicas Pods that are ready.
  replicas Pods in all.
  terminatingReplicas Pods that are going.
  unavailableReplicas Pods that are missing yet.
  updatedReplicas Pods of the newest template.

DeploymentCondition: Something that is true of a Deployment, or not.
  lastTransitionTime When it changed.
  lastUpdateTime When it was told last.
  message Why, for people.
  reason Why, in a word.
  status True, False or Unknown.
  type What.

ReplicaSet: Pods of which so many are kept running.
  spec How many of which pods.
  status How far it is.

ReplicaSetSpec: How many of which pods.
  minReadySeconds Seconds that a pod must be ready to count.
  replicas How many.
  selector Its pods, by their labels.
  template The pods.

ReplicaSetStatus: How far a ReplicaSet is.
  availableReplicas Pods that have been ready for long enough.
  conditions What is true of it.
  fullyLabeledReplicas Pods with all labels of the template.
  observedGeneration The generation that this is about.
  readyReplicas Pods that are ready.
  replicas Pods in all.
  terminatingReplicas Pods that are going.

Job: Pods that run until so many have succeeded.
  spec How many of which pods.
  status How far it is.

JobSpec: How many of which pods.
  activeDeadlineSeconds Seconds after which it is failed.
  backoffLimit Failures before it is failed.
  backoffLimitPerIndex The same, for each index.
  completionMode NonIndexed or Indexed.
  completions Successes that are wanted.
  managedBy Who takes care of it.
  manualSelector Whether the selector is the user's.
  maxFailedIndexes Failed indexes before it is failed.
  parallelism Pods at a time.
  podFailurePolicy What failures mean.
  podReplacementPolicy When pods are replaced.
  selector Its pods; set by the API.
  successPolicy What success means.
  suspend Whether it waits.
  template The pods.
  ttlSecondsAfterFinished Seconds that it is kept after its end.

JobStatus: How far a Job is.
  active Pods that run.
  completedIndexes Indexes that have succeeded.
  completionTime When it was done.
  conditions What is true of it.
  failed Pods that failed.
  failedIndexes Indexes that have failed.
  ready Pods that are ready.
  startTime When it was taken on.
  succeeded Pods that succeeded.
  terminating Pods that are going.
  uncountedTerminatedPods Pods whose end is not counted yet.

JobCondition: Something that is true of a Job, or not.
  lastProbeTime When it was looked at.
  lastTransitionTime When it changed.
  message Why, for people.
  reason Why, in a word.
  status True, False or Unknown.
  type What.

PodDisruptionBudget: How many of some pods may be away at a time.
  spec Which pods, and how many.
  status How many may go now.

PodDisruptionBudgetSpec: Which pods, and how many.
  maxUnavailable So many may be away, or a share.
  minAvailable So many must stay, or a share.
  selector The pods, by their labels.
  unhealthyPodEvictionPolicy Whether pods that are not ready may always go.

PodDisruptionBudgetStatus: How many may go now.
  conditions What is true of it.
  currentHealthy Pods that are ready.
  desiredHealthy Pods that must be.
  disruptedPods Pods that are going, and since when.
  disruptionsAllowed Pods that may go now.
  expectedPods Pods in all.
  observedGeneration The generation that this is about.
"""
