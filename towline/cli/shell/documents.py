"""GraphQL documents of the command line; a test checks them against the schema."""

_PAGE = "pageInfo { hasNextPage endCursor }"

_CLUSTER = """
    id name handle protect metadata tags { name value } currentVersion agentVersion nodeCount
    insertedAt pingedAt deletedAt
"""
_REPOSITORY = (
    "id url health error signIn insertedAt pulledAt polledAt "
    "viaClusterId recurseSubmodules size owner"
)
_HELM_REPOSITORY = (
    "id url health error hasCredentials projectId insertedAt polledAt "
    "charts { chart range version digest }"
)
_SERVICE = """
    id name namespace status protect templated dryRun paused promoted sha pinnedSha digest
    insertedAt updatedAt deletedAt observedAt
    git { ref folder }
    kustomize { path }
    helm { chart version url release values valuesFiles ignoreHooks ignoreCrds }
    configuration { name value }
    cluster { id handle pingedAt }
    repository { id url health error polledAt pulledAt }
    revision { id sha author subject committedAt insertedAt }
    errors { source message }
    sources { repositoryId ref folder path }
    verification { soakSeconds maxRestarts metric { address query comparison threshold } }
    hold { revision digest reason at instead liftedBy }
"""
_COMPONENTS = "components { group kind namespace name state synced message updatedAt }"
_PIPELINE = """
    id name paused insertedAt updatedAt
    stages { id name health reason services { service { id } } }
    edges {
        id reason
        from { name }
        to { name }
        release { id }
        gates { id name type state reason }
    }
"""
_WHOLE_PIPELINE = """
    id name paused onCommit insertedAt updatedAt
    triggers {
        id name type settings git state value reason error checkedAt nextAt webhook
        change { state branch sha number url }
    }
    stages {
        id name health reason verified hold serviceNames git digests { serviceId sha digest }
        workflow {
            id name type state reason settings skipped approvals { actor at comment }
            checks { step state reason attempt jobId outputs { name value } }
        }
        change { state branch sha number url }
        verification { soakSeconds maxRestarts metric { address query comparison threshold } }
        services { service { id name cluster { handle } } }
        release { id number author seenAt revisions { serviceId sha digest } }
        selector { tags { name value } distro projectId groupIds ignoredClusterIds }
        rollout {
            strategy maxUnavailable maxPerGroup maxFailed pauseSeconds canaries canaryCount
            groups waveSize waves given healthy failed reason
        }
    }
    edges {
        id reason
        from { name }
        to { name }
        release { id number author }
        digests { serviceId sha digest }
        gates {
            id name type state reason settings skipped approvals { actor at comment }
            checks { step state reason attempt jobId outputs { name value } }
        }
    }
    history { at place releaseId text actor }
"""
_TOKEN = "id name insertedAt expiresAt lastUsedAt revokedAt"
_USER = "id email name role kind disabledAt"
_TRUST = "id userId issuer audience subject claims { name value } minutes"
_GROUP = "id name description global issuer"
_PROJECT = "id name default description insertedAt"
_ROLE = """
    id name description builtIn rules { verbs kinds }
    kubernetes {
        groups impersonate record recordInput rules { verbs groups resources namespaces names }
    }
"""
_BINDING = """
    id scope place expiresAt givenBy reason role { name } user { email } group { name }
"""
_REQUEST = """
    id scope place minutes reason state decidedBy insertedAt expiresAt
    user { email } role { name }
"""

ME = "query Me { me { id name email role } }"
WHOAMI = """query WhoAmI {
    me { id name email role } myGroups { name } myAccess { role scope why expiresAt }
}"""

CLUSTERS = f"""query Clusters($first: Int, $after: String, $q: String) {{
    clusters(first: $first, after: $after, q: $q) {{ edges {{ node {{ {_CLUSTER} }} }} {_PAGE} }}
}}"""
CLUSTER = f"""query Cluster($id: ID, $handle: String) {{
    cluster(id: $id, handle: $handle) {{ {_CLUSTER} }}
}}"""
CREATE_CLUSTER = f"""mutation CreateCluster($attributes: ClusterAttributes!) {{
    createCluster(attributes: $attributes) {{ {_CLUSTER} deployToken }}
}}"""
UPDATE_CLUSTER = f"""mutation UpdateCluster($id: ID!, $attributes: ClusterUpdateAttributes!) {{
    updateCluster(id: $id, attributes: $attributes) {{ {_CLUSTER} }}
}}"""
DELETE_CLUSTER = f"""mutation DeleteCluster($id: ID!) {{
    deleteCluster(id: $id) {{ {_CLUSTER} }}
}}"""
DETACH_CLUSTER = f"""mutation DetachCluster($id: ID!) {{
    detachCluster(id: $id) {{ {_CLUSTER} }}
}}"""
ROTATE_CLUSTER_TOKEN = f"""mutation RotateClusterToken($id: ID!) {{
    rotateClusterToken(id: $id) {{ {_CLUSTER} deployToken }}
}}"""

REPOSITORIES = f"""query Repositories($first: Int, $after: String, $q: String) {{
    gitRepositories(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_REPOSITORY} }} }} {_PAGE}
    }}
}}"""
REPOSITORY = f"""query Repository($id: ID, $url: String) {{
    gitRepository(id: $id, url: $url) {{ {_REPOSITORY} }}
}}"""
CREATE_REPOSITORY = f"""mutation CreateRepository($attributes: GitAttributes!) {{
    createGitRepository(attributes: $attributes) {{ {_REPOSITORY} }}
}}"""
UPDATE_REPOSITORY = f"""mutation UpdateRepository($id: ID!, $attributes: GitAttributes!) {{
    updateGitRepository(id: $id, attributes: $attributes) {{ {_REPOSITORY} }}
}}"""
DELETE_REPOSITORY = f"""mutation DeleteRepository($id: ID!) {{
    deleteGitRepository(id: $id) {{ {_REPOSITORY} }}
}}"""
SYNC_REPOSITORY = f"""mutation SyncRepository($id: ID!) {{
    syncGitRepository(id: $id) {{ {_REPOSITORY} }}
}}"""

HELM_REPOSITORIES = f"""query HelmRepositories($first: Int, $after: String, $q: String) {{
    helmRepositories(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_HELM_REPOSITORY} }} }} {_PAGE}
    }}
}}"""
HELM_REPOSITORY = f"""query HelmRepository($id: ID, $url: String) {{
    helmRepository(id: $id, url: $url) {{ {_HELM_REPOSITORY} }}
}}"""
CREATE_HELM_REPOSITORY = f"""mutation CreateHelmRepository(
    $attributes: HelmRepositoryAttributes!
) {{
    createHelmRepository(attributes: $attributes) {{ {_HELM_REPOSITORY} }}
}}"""
UPDATE_HELM_REPOSITORY = f"""mutation UpdateHelmRepository(
    $id: ID!, $attributes: HelmRepositoryAttributes!
) {{
    updateHelmRepository(id: $id, attributes: $attributes) {{ {_HELM_REPOSITORY} }}
}}"""
DELETE_HELM_REPOSITORY = f"""mutation DeleteHelmRepository($id: ID!) {{
    deleteHelmRepository(id: $id) {{ {_HELM_REPOSITORY} }}
}}"""
SYNC_HELM_REPOSITORY = f"""mutation SyncHelmRepository($id: ID!) {{
    syncHelmRepository(id: $id) {{ {_HELM_REPOSITORY} }}
}}"""

SERVICES = f"""query Services($first: Int, $after: String, $q: String, $clusterId: ID) {{
    serviceDeployments(first: $first, after: $after, q: $q, clusterId: $clusterId) {{
        edges {{ node {{ {_SERVICE} }} }} {_PAGE}
    }}
}}"""
SERVICE = f"""query Service($id: ID, $cluster: String, $name: String) {{
    serviceDeployment(id: $id, cluster: $cluster, name: $name) {{ {_SERVICE} {_COMPONENTS} }}
}}"""
CREATE_SERVICE = f"""mutation CreateService(
    $clusterId: ID, $cluster: String, $attributes: ServiceDeploymentAttributes!
) {{
    createServiceDeployment(clusterId: $clusterId, cluster: $cluster, attributes: $attributes) {{
        {_SERVICE}
    }}
}}"""
UPDATE_SERVICE = f"""mutation UpdateService($id: ID!, $attributes: ServiceUpdateAttributes!) {{
    updateServiceDeployment(id: $id, attributes: $attributes) {{ {_SERVICE} }}
}}"""
DELETE_SERVICE = f"""mutation DeleteService($id: ID!) {{
    deleteServiceDeployment(id: $id) {{ {_SERVICE} }}
}}"""
DETACH_SERVICE = f"""mutation DetachService($id: ID!) {{
    detachServiceDeployment(id: $id) {{ {_SERVICE} }}
}}"""
SYNC_SERVICE = f"""mutation SyncService($id: ID!) {{
    kickService(serviceId: $id) {{ {_SERVICE} }}
}}"""
AWAITING = """query Awaiting($id: ID!) {
    serviceDeployment(id: $id) { awaiting { kind name namespace group } }
}"""
CONFIRM_DELETIONS = f"""mutation ConfirmDeletions($id: ID!, $objects: [ObjectAttributes!]!) {{
    confirmDeletions(serviceId: $id, objects: $objects) {{ {_SERVICE} }}
}}"""
ROLL_BACK_SERVICE = f"""mutation RollBackService($id: ID!, $revisionId: ID!) {{
    rollbackService(id: $id, revisionId: $revisionId) {{ {_SERVICE} }}
}}"""
RELEASE_SERVICE = f"""mutation ReleaseService($id: ID!) {{
    releaseService(id: $id) {{ {_SERVICE} }}
}}"""
REVISIONS = f"""query Revisions($serviceId: ID!, $first: Int, $after: String) {{
    revisions(serviceId: $serviceId, first: $first, after: $after) {{
        edges {{
            node {{ id sha digest author subject committedAt insertedAt git {{ ref folder }} }}
        }}
        {_PAGE}
    }}
}}"""
LEDGER = f"""query Ledger($serviceId: ID, $first: Int, $after: String) {{
    ledger(serviceId: $serviceId, first: $first, after: $after) {{
        edges {{ node {{ id stage at sequence sha digest revisionId actor message detail }} }}
        {_PAGE}
    }}
}}"""

PIPELINES = f"""query Pipelines($first: Int, $after: String, $q: String) {{
    pipelines(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_PIPELINE} }} }} {_PAGE}
    }}
}}"""
PIPELINE = f"""query Pipeline($id: ID, $name: String) {{
    pipeline(id: $id, name: $name) {{
        {_WHOLE_PIPELINE}
    }}
}}"""
SAVE_PIPELINE = f"""mutation SavePipeline($name: String!, $attributes: PipelineAttributes!) {{
    savePipeline(name: $name, attributes: $attributes) {{ {_PIPELINE} }}
}}"""
DELETE_PIPELINE = f"""mutation DeletePipeline($id: ID!) {{
    deletePipeline(id: $id) {{ {_PIPELINE} }}
}}"""
APPROVE_GATE = f"""mutation ApproveGate(
    $id: ID!, $digests: [DigestAttributes!], $comment: String
) {{
    approveGate(id: $id, digests: $digests, comment: $comment) {{ {_PIPELINE} }}
}}"""
REJECT_GATE = f"""mutation RejectGate($id: ID!, $comment: String) {{
    rejectGate(id: $id, comment: $comment) {{ {_PIPELINE} }}
}}"""
PIPELINE_WHAT_IF = """query PipelineWhatIf(
    $id: ID!, $attributes: PipelineAttributes!, $since: DateTime!, $until: DateTime!
) {
    pipelineWhatIf(id: $id, attributes: $attributes, since: $since, until: $until) {
        beginsAt
        steps { stage releaseId back was would }
        waiting { stage releaseId reason }
    }
}"""
SKIP_GATE = f"""mutation SkipGate($id: ID!, $release: ID!, $reason: String!) {{
    skipGate(id: $id, releaseId: $release, reason: $reason) {{ {_PIPELINE} }}
}}"""
ANSWER_GATE = f"""mutation AnswerGate(
    $id: ID!, $release: ID!, $passed: Boolean!, $reason: String!
) {{
    answerGate(id: $id, releaseId: $release, passed: $passed, reason: $reason) {{ {_PIPELINE} }}
}}"""
START_RELEASE = f"""mutation StartRelease($id: ID!, $reason: String!) {{
    startRelease(id: $id, reason: $reason) {{ {_PIPELINE} }}
}}"""
CHECK_TRIGGER = f"""mutation CheckTrigger($id: ID!, $trigger: String!) {{
    checkTrigger(id: $id, trigger: $trigger) {{ {_PIPELINE} }}
}}"""
ABORT_ROLLOUT = f"""mutation AbortRollout($id: ID!, $stage: String!, $reason: String!) {{
    abortRollout(id: $id, stage: $stage, reason: $reason) {{ {_PIPELINE} }}
}}"""
LIFT_HOLD = f"""mutation LiftHold($id: ID!, $stage: String!) {{
    acknowledgeRollback(id: $id, stage: $stage) {{ {_PIPELINE} }}
}}"""
REFUSED_REVISIONS = (
    "query RefusedRevisions { deniedRevisions { revision actor reason insertedAt } }"
)
REFUSE_REVISION = """mutation RefuseRevision($revision: String!, $reason: String!) {
    denyRevision(revision: $revision, reason: $reason) { revision actor reason insertedAt }
}"""
LIFT_REVISION = """mutation LiftRevision($revision: String!) {
    allowRevision(revision: $revision) { revision actor reason insertedAt }
}"""
RETRY_PIPELINE = f"""mutation RetryPipeline($id: ID!, $stage: String!) {{
    retryPipeline(id: $id, stage: $stage) {{ {_PIPELINE} }}
}}"""
PAUSE_PIPELINE = f"""mutation PausePipeline($id: ID!, $reason: String) {{
    pausePipeline(id: $id, reason: $reason) {{ {_PIPELINE} }}
}}"""
RESUME_PIPELINE = f"""mutation ResumePipeline($id: ID!) {{
    resumePipeline(id: $id) {{ {_PIPELINE} }}
}}"""

AUDIT = f"""query Audit($first: Int, $after: String, $q: String, $filter: AuditLogFilter) {{
    auditLogs(first: $first, after: $after, q: $q, filter: $filter) {{
        edges {{
            node {{
                id at actor action verdict target status source requestId detail kind number hash
            }}
        }}
        {_PAGE}
    }}
}}"""
AUDIT_CHAINS = "query AuditChains { auditChains { kind number hash expired expiredAt } }"

_SINK = "id name type host audit projectId repositoryId failures error"
_ROUTER = "id name events severity sinkIds projectId filters { clusterId serviceId regex }"
_DELIVERY = "id state attempts status error sinkId notificationId dueAt finishedAt"
NOTIFICATIONS = f"""query Notifications($first: Int, $after: String, $q: String) {{
    appNotifications(first: $first, after: $after, q: $q) {{
        edges {{ node {{ id at kind severity subject text }} }} {_PAGE}
    }}
}}"""
SINKS = f"""query Sinks($first: Int, $after: String, $q: String) {{
    notificationSinks(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_SINK} }} }} {_PAGE}
    }}
}}"""
SET_SINK = f"""mutation SetSink($attributes: NotificationSinkAttributes!) {{
    upsertNotificationSink(attributes: $attributes) {{ {_SINK} signingSecret }}
}}"""
DELETE_SINK = f"""mutation DeleteSink($id: ID!) {{
    deleteNotificationSink(id: $id) {{ {_SINK} }}
}}"""
TEST_SINK = f"""mutation TestSink($id: ID!) {{
    testNotificationSink(id: $id) {{ {_DELIVERY} }}
}}"""
ROUTERS = f"""query Routers($first: Int, $after: String, $q: String) {{
    notificationRouters(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_ROUTER} }} }} {_PAGE}
    }}
}}"""
SET_ROUTER = f"""mutation SetRouter($attributes: NotificationRouterAttributes!) {{
    upsertNotificationRouter(attributes: $attributes) {{ {_ROUTER} }}
}}"""
DELETE_ROUTER = f"""mutation DeleteRouter($id: ID!) {{
    deleteNotificationRouter(id: $id) {{ {_ROUTER} }}
}}"""
DELIVERIES = f"""query Deliveries($first: Int, $state: NotificationDeliveryState) {{
    notificationDeliveries(first: $first, state: $state) {{
        edges {{ node {{ {_DELIVERY} }} }} {_PAGE}
    }}
}}"""
RESEND = f"""mutation Resend($id: ID!) {{
    resendNotification(id: $id) {{ {_DELIVERY} }}
}}"""

_STREAM = """id since cluster user actingAs what kind source userAgent bytesIn bytesOut recorded
    replica"""
STREAMS = f"""query Streams($cluster: String, $user: String) {{
    openStreams(cluster: $cluster, user: $user) {{ nodes {{ {_STREAM} }} silent }}
}}"""
END_STREAM = f"mutation EndStream($id: ID!) {{ endStream(id: $id) {{ {_STREAM} }} }}"
RECORDING = """query Recording($id: ID!, $offset: Int!) {
    sessionRecording(requestId: $id, offset: $offset) { data next ongoing }
}"""

TOKENS = f"query Tokens {{ accessTokens {{ {_TOKEN} }} }}"
CREATE_TOKEN = f"""mutation CreateToken($attributes: AccessTokenAttributes!) {{
    createAccessToken(attributes: $attributes) {{ {_TOKEN} token }}
}}"""
DELETE_TOKEN = f"""mutation DeleteToken($id: ID!) {{
    deleteAccessToken(id: $id) {{ {_TOKEN} }}
}}"""

INSTALLATION = "query Installation { installation { version agentsPort } }"
USERS = f"""query Users($first: Int, $after: String, $q: String) {{
    users(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_USER} }} }} {_PAGE}
    }}
}}"""
USER = f"query User($email: String!) {{ user(email: $email) {{ {_USER} }} }}"
UPSERT_USER = f"""mutation UpsertUser($attributes: UserAttributes!) {{
    upsertUser(attributes: $attributes) {{ {_USER} }}
}}"""
DISABLE_USER = f"""mutation DisableUser($id: ID!, $disabled: Boolean!) {{
    disableUser(id: $id, disabled: $disabled) {{ {_USER} }}
}}"""
CREATE_SERVICE_ACCOUNT = f"""mutation CreateServiceAccount($name: String!) {{
    createServiceAccount(name: $name) {{ {_USER} }}
}}"""
CREATE_ACCOUNT_TOKEN = f"""mutation CreateAccountToken(
    $id: ID!, $attributes: AccessTokenAttributes!
) {{
    createServiceAccountToken(id: $id, attributes: $attributes) {{ {_TOKEN} token }}
}}"""
TRUST_RULES = f"query TrustRules {{ trustRules {{ {_TRUST} }} }}"
CREATE_TRUST_RULE = f"""mutation CreateTrustRule($userId: ID!, $attributes: TrustRuleAttributes!) {{
    createTrustRule(userId: $userId, attributes: $attributes) {{ {_TRUST} }}
}}"""
DELETE_TRUST_RULE = f"""mutation DeleteTrustRule($id: ID!) {{
    deleteTrustRule(id: $id) {{ {_TRUST} }}
}}"""
SESSIONS = f"query Sessions {{ sessions {{ {_TOKEN} }} }}"
SIGN_OUT_EVERYWHERE = "mutation SignOutEverywhere { signOutEverywhere }"

GROUPS = f"""query Groups($first: Int, $after: String, $q: String) {{
    groups(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_GROUP} }} }} {_PAGE}
    }}
}}"""
GROUP = f"query Group($name: String!) {{ group(name: $name) {{ {_GROUP} }} }}"
GROUP_MEMBERS = f"query GroupMembers($id: ID!) {{ groupMembers(groupId: $id) {{ {_USER} }} }}"
CREATE_GROUP = f"""mutation CreateGroup($attributes: GroupAttributes!) {{
    createGroup(attributes: $attributes) {{ {_GROUP} }}
}}"""
DELETE_GROUP = f"""mutation DeleteGroup($id: ID!) {{
    deleteGroup(groupId: $id) {{ {_GROUP} }}
}}"""
ADD_MEMBER = f"""mutation AddMember($groupId: ID!, $userId: ID!) {{
    createGroupMember(groupId: $groupId, userId: $userId) {{ id user {{ {_USER} }} }}
}}"""
REMOVE_MEMBER = f"""mutation RemoveMember($groupId: ID!, $userId: ID!) {{
    deleteGroupMember(groupId: $groupId, userId: $userId) {{ id user {{ {_USER} }} }}
}}"""

PROJECTS = f"""query Projects($first: Int, $after: String, $q: String) {{
    projects(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_PROJECT} }} }} {_PAGE}
    }}
}}"""
PROJECT = f"""query Project($id: ID, $name: String) {{
    project(id: $id, name: $name) {{ {_PROJECT} }}
}}"""
CREATE_PROJECT = f"""mutation CreateProject($attributes: ProjectAttributes!) {{
    createProject(attributes: $attributes) {{ {_PROJECT} }}
}}"""
DELETE_PROJECT = f"""mutation DeleteProject($id: ID!) {{
    deleteProject(id: $id) {{ {_PROJECT} }}
}}"""

ROLES = f"query Roles {{ roles {{ {_ROLE} }} }}"
ROLE = f"query Role($name: String!) {{ role(name: $name) {{ {_ROLE} }} }}"
CREATE_ROLE = f"""mutation CreateRole($attributes: RoleAttributes!) {{
    createRole(attributes: $attributes) {{ {_ROLE} }}
}}"""
UPDATE_ROLE = f"""mutation UpdateRole($id: ID!, $attributes: RoleAttributes!) {{
    updateRole(id: $id, attributes: $attributes) {{ {_ROLE} }}
}}"""
DELETE_ROLE = f"""mutation DeleteRole($id: ID!) {{
    deleteRole(id: $id) {{ {_ROLE} }}
}}"""
BINDINGS = f"query Bindings($scope: String) {{ roleBindings(scope: $scope) {{ {_BINDING} }} }}"
CREATE_BINDING = f"""mutation CreateBinding($attributes: RoleBindingAttributes!) {{
    createRoleBinding(attributes: $attributes) {{ {_BINDING} }}
}}"""
DELETE_BINDING = f"""mutation DeleteBinding($id: ID!) {{
    deleteRoleBinding(id: $id) {{ {_BINDING} }}
}}"""
CAN = """query Can($verb: Verb!, $kind: ResourceKind!, $id: ID) {
    can(verb: $verb, kind: $kind, id: $id)
}"""
WHO_CAN = """query WhoCan($verb: Verb!, $kind: ResourceKind!, $id: ID) {
    whoCan(verb: $verb, kind: $kind, id: $id) {
        user { email } reasons { role scope why expiresAt }
    }
}"""
ACCESS_REQUESTS = f"query AccessRequests {{ accessRequests {{ {_REQUEST} }} }}"
REQUEST_ACCESS = f"""mutation RequestAccess(
    $role: String!, $scope: String!, $minutes: Int!, $reason: String!
) {{
    requestAccess(role: $role, scope: $scope, minutes: $minutes, reason: $reason) {{ {_REQUEST} }}
}}"""
APPROVE_ACCESS = f"mutation Approve($id: ID!) {{ approveAccess(id: $id) {{ {_REQUEST} }} }}"
REFUSE_ACCESS = f"mutation Refuse($id: ID!) {{ denyAccess(id: $id) {{ {_REQUEST} }} }}"
REVOKE_ACCESS = f"mutation Revoke($id: ID!) {{ revokeAccess(id: $id) {{ {_REQUEST} }} }}"

SERVICE_DIFF = """query ServiceDiff(
    $id: ID!, $ref: String, $newDigest: String, $oldDigest: String
) {
    serviceDiff(id: $id, ref: $ref, newDigest: $newDigest, oldDigest: $oldDigest) {
        serviceId oldDigest newDigest sha added removed changed
        objects { change apiVersion kind namespace name more fields { pointer old new } }
    }
}"""

SEARCH = """query Search($q: String!, $first: Int, $after: String) {
    search(q: $q, first: $first, after: $after) {
        totalCount totalCountKind
        edges { node {
            id cluster service ageSeconds stale
            object { kind namespace name state images message }
        } }
        pageInfo { hasNextPage endCursor }
    }
}"""
PLACES = """query Places($q: String!, $first: Int!) {
    places(q: $q, first: $first) { kind id name within }
}"""
FLEET_AT = """query FleetAt($at: DateTime!, $clusterId: ID, $projectId: ID) {
    fleet(at: $at, clusterId: $clusterId, projectId: $projectId) {
        clusters { cluster services { serviceId service sha statusCode desiredAt } }
    }
}"""
FLEET_CHANGES = """query FleetChanges(
    $then: DateTime!, $now: DateTime!, $clusterId: ID, $projectId: ID
) {
    fleetChanges(then: $then, now: $now, clusterId: $clusterId, projectId: $projectId) {
        kind serviceId service cluster shaBefore shaAfter statusBefore statusAfter
    }
}"""
DELIVERY_REPORT = """query DeliveryReport(
    $since: DateTime!, $until: DateTime, $clusterId: ID, $projectId: ID
) {
    deliveryReport(since: $since, until: $until, clusterId: $clusterId, projectId: $projectId) {
        since until deploymentsPerDay leadP50 leadP90 restoreP50 restoreP90
        total { begun healthy failed failureRate }
    }
}"""
COMMIT_TRACE = """query CommitTrace($sha: String!, $repositoryId: ID) {
    commitTrace(sha: $sha, repositoryId: $repositoryId) {
        sha services live
        stages { stage count p50 p99 }
        stragglers { serviceId service cluster standing reason since }
    }
}"""
OBJECTS_OF_SERVICE = """query ObjectsOfService($id: ID!) {
    serviceDeployment(id: $id) { components { id kind namespace name } }
}"""
COMPONENT_BLAME = """query ComponentBlame($id: ID!, $pointer: String!) {
    componentBlame(id: $id, pointer: $pointer) {
        pointer value manager operation subresource at person requestId isOldestRevision
        revision { sha subject committedAt }
    }
}"""
