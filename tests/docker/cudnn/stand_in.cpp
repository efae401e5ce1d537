// choose PASS LIMIT OFFER…: which algorithm Caffe chooses of those that cuDNN is said to offer, and its workspace.
// PASS is forward, filter, data or math (the convolution's math type). An OFFER is
// ALGORITHM,STATUS,MEMORY,DETERMINISM,STATUS,WORKSPACE: what the list says, then what the workspace's own call says.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "caffe/util/cudnn.hpp"

namespace {
struct Answer {
  int algorithm, status, memory, determinism, workspace_status, workspace;
};
std::vector<Answer> answers;
int math_type = -1;

// Descriptors are only names here: each call must be given those of its own arguments, in its own order.
Handle* const handle = reinterpret_cast<Handle*>(1);
Tensor* const x = reinterpret_cast<Tensor*>(2);
Filter* const w = reinterpret_cast<Filter*>(3);
Convolution* const convolution = reinterpret_cast<Convolution*>(4);
Tensor* const y = reinterpret_cast<Tensor*>(5);

template <typename Algorithm>
cudnnStatus_t list(bool right, int room, int* count, Offer<Algorithm>* offers) {
  if (!right || room < static_cast<int>(answers.size())) { return CUDNN_STATUS_NOT_SUPPORTED; }
  *count = static_cast<int>(answers.size());
  for (int i = 0; i < *count; ++i) {
    const Answer& answer = answers[i];
    offers[i] = {Algorithm(answer.algorithm), cudnnStatus_t(answer.status), -1, size_t(answer.memory),
                 cudnnDeterminism_t(answer.determinism)};
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t workspace_of(bool right, int algorithm, size_t* bytes) {
  for (const Answer& answer : answers) {
    if (right && answer.algorithm == algorithm) {
      *bytes = answer.workspace;
      return cudnnStatus_t(answer.workspace_status);
    }
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}
}  // namespace

const char* cudnnGetErrorString(cudnnStatus_t) { return "the stand-in's"; }
size_t cudnnGetVersion() { return CUDNN_VERSION; }

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t h, cudnnTensorDescriptor_t a,
    cudnnFilterDescriptor_t b, cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t d, int room, int* count,
    cudnnConvolutionFwdAlgoPerf_t* offers) {
  return list(h == handle && a == x && b == w && c == convolution && d == y, room, count, offers);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t h, cudnnTensorDescriptor_t a,
    cudnnFilterDescriptor_t b, cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t d,
    cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return workspace_of(h == handle && a == x && b == w && c == convolution && d == y, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t h, cudnnTensorDescriptor_t a,
    cudnnTensorDescriptor_t b, cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t d, int room, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* offers) {
  return list(h == handle && a == x && b == y && c == convolution && d == w, room, count, offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t h, cudnnTensorDescriptor_t a,
    cudnnTensorDescriptor_t b, cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t d,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return workspace_of(h == handle && a == x && b == y && c == convolution && d == w, algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t h, cudnnFilterDescriptor_t a,
    cudnnTensorDescriptor_t b, cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t d, int room, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* offers) {
  return list(h == handle && a == w && b == y && c == convolution && d == x, room, count, offers);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t h, cudnnFilterDescriptor_t a,
    cudnnTensorDescriptor_t b, cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t d,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return workspace_of(h == handle && a == w && b == y && c == convolution && d == x, algorithm, bytes);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t, int, int, int, int, int, int,
    cudnnConvolutionMode_t, cudnnDataType_t) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t type) {
  math_type = type;
  return CUDNN_STATUS_SUCCESS;
}

int main(int argc, char** argv) {
  const std::string pass = argv[1];
  const size_t limit = std::atoi(argv[2]);
  for (int i = 3; i < argc; ++i) {
    Answer a;
    if (std::sscanf(argv[i], "%d,%d,%d,%d,%d,%d", &a.algorithm, &a.status, &a.memory, &a.determinism,
                    &a.workspace_status, &a.workspace) != 6) { return 2; }
    answers.push_back(a);
  }
  size_t workspace = 0;
  int chosen = -1;
  if (pass == "forward") {
    cudnnConvolutionFwdAlgo_t algorithm;
    caffe::cudnn::chooseForwardAlgorithm("conv1", handle, x, w, convolution, y, limit, &algorithm, &workspace);
    chosen = algorithm;
  } else if (pass == "filter") {
    cudnnConvolutionBwdFilterAlgo_t algorithm;
    caffe::cudnn::chooseBackwardFilterAlgorithm("conv1", handle, x, w, convolution, y, limit, &algorithm, &workspace);
    chosen = algorithm;
  } else if (pass == "data") {
    cudnnConvolutionBwdDataAlgo_t algorithm;
    caffe::cudnn::chooseBackwardDataAlgorithm("conv1", handle, x, w, convolution, y, limit, &algorithm, &workspace);
    chosen = algorithm;
  } else {
    cudnnConvolutionDescriptor_t descriptor = convolution;
    caffe::cudnn::setConvolutionDesc<float>(&descriptor, x, w, 0, 0, 1, 1);
    chosen = math_type;
  }
  std::printf("%d %zu\n", chosen, workspace);
  return 0;
}
